"""The tools of Gemini CLI by name, and which parts of a request change the set of tools that the model sees.

Measured: a tool that needs a confirmation is not in the prompt if nobody can be asked. So nearly everything
that is allowed or denied by name, and the postures ``edit`` and ``full``, change the prompt.
"""

from __future__ import annotations

from segue.core.request import Request
from segue.core.tools import Tools

SHELL = "run_shell_command"
_EDITING = frozenset({"replace", "write_file", "web_fetch"})
_SHOWN = frozenset(
    {"glob", "google_web_search", "grep_search", "invoke_agent", "list_directory", "read_file"}
    | {"search_file_content", "update_topic"}
)
"""What the model sees if nothing is allowed."""

_BOTH = (
    *("activate_skill", "ask_user", "cli_help", "codebase_investigator", "enter_plan_mode", "exit_plan_mode"),
    *("get_internal_docs", "glob", "google_web_search", "grep_search", "list_directory", "read_file"),
    *("read_many_files", "replace", SHELL, "search_file_content", "web_fetch", "write_file", "write_todos"),
)
_ELSEWHERE = {
    "bash": SHELL,
    "shell": SHELL,
    "shelltool": SHELL,
    "read": "read_file",
    "write": "write_file",
    "edit": "replace",
    "grep": "grep_search",
    "ls": "list_directory",
    "websearch": "google_web_search",
    "web_search": "google_web_search",
    "webfetch": "web_fetch",
}
_ONLY_NEW = (
    *("complete_task", "invoke_agent", "list_background_processes", "list_mcp_resources"),
    *("read_background_output", "read_mcp_resource", "take_snapshot", "tracker_add_dependency"),
    *("tracker_create_task", "tracker_get_task", "tracker_list_tasks", "tracker_update_task"),
    *("tracker_visualize", "update_topic"),
)
LOOKING = (
    *("ask_user", "cli_help", "codebase_investigator", "complete_task"),
    *("get_internal_docs", "glob", "google_web_search", "grep_search", "invoke_agent", "list_directory"),
    *("list_background_processes", "list_mcp_resources", "read_background_output", "read_file"),
    *("read_many_files", "read_mcp_resource", "search_file_content", "tracker_get_task"),
    *("tracker_list_tasks", "tracker_visualize", "update_topic", "web_fetch", "write_todos"),
)
NEW = Tools(
    names=tuple(sorted((*_BOTH, *_ONLY_NEW))),
    narrowed=(SHELL,),
    looking=LOOKING,
    others=r"mcp_\*|mcp_[A-Za-z0-9.:-][\w.:-]*_([\w.:-]+|\*)|discovered_tool_.+",
    elsewhere=_ELSEWHERE,
)
"""For versions that read policies."""
OLD = Tools(
    names=tuple(sorted((*_BOTH, "save_memory"))),
    narrowed=(SHELL,),
    looking=LOOKING,
    others=r"[A-Za-z0-9_-]+__[A-Za-z0-9_-]+|discovered_tool_.+",
    elsewhere=_ELSEWHERE,
)


def offers(request: Request) -> tuple[str, ...]:
    if request.permission == "full":
        return ("with everything", *_without(request))
    shown = _SHOWN | (_EDITING if request.permission == "edit" else frozenset())
    edits = ("with edits",) if request.permission == "edit" else ()
    allowed = {tool.partition("(")[0] for tool in request.allow_tools}
    return (*edits, *(f"with {tool}" for tool in sorted(allowed - shown)), *_without(request))


def _without(request: Request) -> tuple[str, ...]:
    return tuple(f"without {tool}" for tool in sorted(set(request.deny_tools)) if "(" not in tool)
