"""The tools of Claude Code by name, and which parts of a request change the set of tools that the model sees.

Measured: a permission mode does not change a resumed session's tools, and neither do rules with brackets or
tools that are only allowed. A tool that is denied entirely is removed from the prompt. From 2.1.325 on, most
tools are not in the prompt until the model searches for them, and Glob and Grep are there only if they are
allowed by name or Bash is denied.
"""

from __future__ import annotations

from segue.core.request import Request
from segue.core.tools import Tools

ASK = "AskUserQuestion"
ANSWER = "StructuredOutput"
"""How the model gives an answer that was asked for by a schema."""
WRITERS = ("Bash", "Edit", "MultiEdit", "NotebookEdit", "Write")
"""What the posture ``read`` denies."""
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
    named = (*(WRITERS if request.permission == "read" else ()), *request.deny_tools)
    return tuple(dict.fromkeys((*named, *(() if request.questions else (ASK,)))))


def offers(request: Request, *, all_shown: bool) -> tuple[str, ...]:
    """How the tools in the prompt differ from the usual ones. ``all_shown``: this version puts all there."""
    whole = {tool for tool in denied(request) if "(" not in tool}
    gone = sorted(tool for tool in whole if all_shown or tool in _SHOWN or tool.startswith("mcp__"))
    allowed = {tool.partition("(")[0] for tool in request.allow_tools} & _ON_DEMAND
    added = () if all_shown else tuple(sorted(allowed - whole))
    added += (ANSWER,) if request.schema is not None else ()
    return (*(f"with {tool}" for tool in added), *(f"without {tool}" for tool in gone))
