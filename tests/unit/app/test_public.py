"""The public surface: its names, and that commands, ``Segue`` and ``SyncSegue`` do not drift apart."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import segue
from segue.app.segue import Segue
from segue.app.segue_accounts import Accounts
from segue.app.segue_conversations import Conversations
from segue.app.segue_flows import Flows
from segue.app.segue_runs import Runs
from segue.app.segue_sessions import NativeSessions
from segue.app.sync import SyncAccounts, SyncConversations, SyncFlows, SyncNativeSessions, SyncRuns, SyncSegue
from segue.cli import account
from segue.cli.commands import COMMANDS
from segue.cli.sessions import TABLE
from segue.core import errors, events

ONLY_COMMANDS = {
    *("rehearse", "trust", "completion", "sessions", "serve", "stop", "status"),
    *("queue", "watch", "cancel", "answer", "account", "flow", "escalate", "chain", "init", "review"),
}
"""Commands about the command line itself, and those whose methods are in a section."""
SECTIONS = {"sessions", "conversations", "runs", "accounts", "flows"}
ONLY_METHODS = {"stream", "workspace", "finish", "service", "usage", "unpaid", "settings"}
"""What the API and the page show."""


NAMES = """
AccountDetails AccountShown AccountSwitched Accounts AgentSetting AgentShown AllowedToolShown
Answer Attached Attachment AttachmentData AttachmentOrder AttemptShown Briefing Broken Cancel
Capabilities CarryShown Chain ChainTurn Changed Check CheckReport Compacted ConfigError Conflict Context
ConversationHit ConversationLineage ConversationSession ConversationShown Conversations
CopyShown DaemonUnavailable Decision Delta End Entry EscalationOrder Event FailureShown FeedEvent FeedItem
Finding Flow FlowDefinition FlowEnd FlowOrder FlowReport FlowShown FlowStepShown Flows Forbidden
Gone Heard Hello Hit InUse LastAnswer LimitReport LimitShown LimitsRefreshed Load LogMessage
LoginCommand MessagePage MessageVersion Misuse NativeSessions NotFound NotInstalled Notice
OpenQuestion Options Page Permission PruneReport PrunedSession Question ReachedBudget
RepairReport RestoreReport RestoredSession Retry RunOptions RunOrder RunShown RungShown Runs Saved Segue
SegueError Sends Sent Session SessionInfo SessionShown SettingsShown SetupFinding StoreAway
SyncAccounts SyncConversations SyncFlows SyncNativeSessions SyncRuns SyncSegue Tally Terms Text TextDelta
Thinking ToolAnswer ToolCall ToolResult Turn TurnChild TurnLineage TurnParent Undone Unknown
UnpaidTurn Usage UsageReport UsageStatistics UsageSum Why __version__ flow
"""


def test_the_public_names_are_these() -> None:
    assert segue.__all__ == NAMES.split()
    assert all(hasattr(segue, name) for name in segue.__all__)


def test_types_and_names_are_told_alike() -> None:
    """What a type checker sees is what there is when the program runs."""
    tree = ast.parse(Path(segue.__file__).read_text())
    typed = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("segue.")
        for alias in node.names
    }
    assert typed == {(module, name) for module, names in segue._HOMES.items() for name in names}
    assert {name for _, name in typed} | {"__version__"} == set(segue.__all__)
    with pytest.raises(AttributeError):
        segue.Nothing  # type: ignore[attr-defined] # noqa: B018


def test_all_events_and_errors_are_public() -> None:
    for module, root in ((events, events.Event), (errors, errors.SegueError)):
        kinds = {
            name for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, root)
        }
        assert kinds <= set(segue.__all__)


def public(kind: type) -> dict[str, object]:
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def parameters(method: object) -> list[tuple[str, object, object]]:
    assert callable(method)
    _, *others = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default) for each in others]


@pytest.mark.parametrize(
    ("waiting", "blocking"),
    [
        (Segue, SyncSegue),
        (NativeSessions, SyncNativeSessions),
        (Conversations, SyncConversations),
        (Runs, SyncRuns),
        (Flows, SyncFlows),
        (Accounts, SyncAccounts),
    ],
)
def test_the_two_apis_have_the_same_methods(waiting: type, blocking: type) -> None:
    methods = {name for name in public(waiting) if name not in ("workspace", "finish", "service")}
    assert methods == set(public(blocking))
    for name in methods - SECTIONS:
        ours, theirs = public(waiting)[name], public(blocking)[name]
        assert parameters(ours) == parameters(theirs), name
        assert returned(ours).replace("AsyncGenerator", "Iterator") == returned(theirs), name


def test_the_two_apis_are_constructed_alike() -> None:
    assert inspect.signature(Segue).parameters == inspect.signature(SyncSegue).parameters


def returned(method: object) -> str:
    assert callable(method)
    return str(inspect.signature(method).return_annotation)


def named(commands: dict[str, str]) -> set[str]:
    keywords = {"import": "import_", "continue": "continue_"}
    return {keywords.get(name, name) for name in commands}


def test_each_command_is_a_method() -> None:
    assert named(COMMANDS) - ONLY_COMMANDS == set(public(Segue)) - ONLY_METHODS - SECTIONS
    assert named(TABLE) == set(public(NativeSessions)) - {"copies", "info"}
    assert set(account.command.commands) == set(public(Accounts)) - {"refresh"}, "an option of ls and show"


@pytest.mark.parametrize("method", [Segue.stream, Segue.run, Segue.retry, NativeSessions.continue_])
def test_whatever_runs_a_turn_takes_the_same_functions(method: Callable[..., object]) -> None:
    names = {each.name for each in inspect.signature(method).parameters.values()}
    assert {"on_notice", "answer", "cancel", "options"} <= names
