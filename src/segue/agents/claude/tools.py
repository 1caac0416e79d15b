"""The tools of Claude Code by name, and which parts of a request change the set of tools that the model sees.

Measured: a permission mode does not change a resumed session's tools, and neither do rules with brackets or
tools that are only allowed. A tool that is denied entirely is removed from the prompt. From 2.1.325 on, most
tools are not in the prompt until the model searches for them, and Glob and Grep are there only if they are
allowed by name or Bash is denied.

The posture ``read`` names the tools that are there, so a tool that comes with a later version is not among
them. A tool that writes or runs is there only if a rule names it.
"""

from __future__ import annotations

import re

from segue.core.request import Request
from segue.core.tools import Tools, changing

ASK = "AskUserQuestion"
ANSWER = "StructuredOutput"
"""How the model gives an answer that was asked for by a schema."""
LOOKING = (
    *("Agent", "Glob", "Grep", "LSP", "ListAgents", "NotebookRead", "Read", "ReportFindings", "Skill"),
    *(ANSWER, "Task", "TaskOutput", "TodoWrite", "ToolSearch", "WebFetch", "WebSearch"),
)
"""What the posture ``read`` offers. A subagent gets no more than that, either."""
EDITORS = ("Edit", "MultiEdit", "NotebookEdit", "Write")
PATTERNS = ("Bash", "Edit")
"""The tools that write or run and of which Claude can allow a part, measured."""
_GIT = "Bash(git *)"
"""Claude runs these of its own accord if they only look; and they run programs that the repository names."""
_SHOWN = frozenset(
    {"Agent", "Bash", "Edit", "ListAgents", "Read", "ReportFindings", "ScheduleWakeup", "Skill"}
    | {"Task", "ToolSearch", "Workflow", "Write", ASK}
)
"""What 2.1.325 puts into every prompt."""
_ON_DEMAND = frozenset({"Glob", "Grep"})

_NAMES = (
    *("Agent", "Artifact", "ArtifactCheck", "ArtifactComments", "ArtifactData", ASK),
    *("Bash", "BashOutput", "CronCreate", "CronDelete", "CronList", "Edit", "EnterPlanMode"),
    *(
        "EnterWorktree",
        "ExitPlanMode",
        "ExitWorktree",
        "Glob",
        "Grep",
        "KillShell",
        "LS",
        "LSP",
        "ListAgents",
    ),
    *("ListMcpResourcesTool", "Monitor", "MultiEdit", "NotebookEdit", "NotebookRead", "PowerShell"),
    *("PushNotification", "REPL", "Read", "ReadMcpResourceTool", "RemoteTrigger", "ReportFindings"),
    *("ScheduleWakeup", "SendMessage", "Skill", "StructuredOutput", "Task", "TaskCreate", "TaskGet"),
    *("TaskList", "TaskOutput", "TaskStop", "TaskUpdate", "TeamCreate", "TeamDelete", "TodoWrite"),
    *("ToolSearch", "WebFetch", "WebSearch", "Workflow", "Write"),
)
TOOLS = Tools(
    names=_NAMES,
    narrowed=_NAMES,
    looking=(*LOOKING, ASK),
    others=r"mcp__[\w.-]+(__([\w.-]+|[\w.-]*\*))?",
    elsewhere={
        "shell": "Bash",
        "run_shell_command": "Bash",
        "read_file": "Read",
        "write_file": "Write",
        "replace": "Edit",
        "grep_search": "Grep",
        "web_fetch": "WebFetch",
        "web_search": "WebSearch",
        "ask_user": ASK,
    },
)


def denied(request: Request) -> tuple[str, ...]:
    """The tools that a run must not use: by its posture, by name, or because nobody would answer."""
    named = (*(_unread(request) if request.permission == "read" else ()), *request.deny_tools)
    return tuple(dict.fromkeys((*named, *(() if request.questions else (ASK,)))))


def there(request: Request) -> tuple[str, ...]:
    """The tools that the posture ``read`` offers: those that look, and those that a rule names."""
    ask = (ASK,) if request.questions else ()
    return tuple(dict.fromkeys((*LOOKING, *ask, *sorted(_ruled(request)))))


def offers(request: Request, *, all_shown: bool) -> tuple[str, ...]:
    """How the tools in the prompt differ from the usual ones. ``all_shown``: this version puts all there."""
    whole = {tool for tool in denied(request) if "(" not in tool}
    if request.permission == "read":
        gone = sorted(tool for tool in whole if tool in (*LOOKING, ASK) or tool.startswith("mcp__"))
        added: tuple[str, ...] = ("the tools that look", *sorted(_ruled(request) - whole))
    else:
        gone = sorted(tool for tool in whole if all_shown or tool in _SHOWN or tool.startswith("mcp__"))
        allowed = {tool.partition("(")[0] for tool in request.allow_tools} & _ON_DEMAND
        added = () if all_shown else tuple(sorted(allowed - whole))
    added += (ANSWER,) if request.schema is not None else ()
    return (*(f"with {tool}" for tool in added), *(f"without {tool}" for tool in gone))


def may_run_git(request: Request) -> bool:
    """Whether a rule names git."""
    return any(re.match(r"Bash\(\s*git\b", rule) for rule in request.allow_tools)


def _ruled(request: Request) -> set[str]:
    """The tools that write or run and that a rule names."""
    rules = changing(TOOLS, request.allow_tools)
    return {rule.partition("(")[0] for rule in rules if not rule.startswith("mcp__")}


def _unread(request: Request) -> tuple[str, ...]:
    """What the posture ``read`` denies besides not offering it."""
    ruled = _ruled(request)
    editors = () if ruled & set(EDITORS) else EDITORS
    if "Bash" not in ruled:
        return ("Bash", *editors)
    return editors if may_run_git(request) else (*editors, _GIT)
