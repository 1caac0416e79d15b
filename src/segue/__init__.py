"""Segue carries a conversation across headless coding-agent runs.

The public names. Each is imported when it is first used, so that ``import segue`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in ``typing``, which takes longer to load than all that a turn through the daemon needs of ours. The
modules of ``segue run`` do the same."""
if TYPE_CHECKING:
    from segue.agents.base import Answer
    from segue.app.account_shapes import AccountDetails, AccountShown, LimitsRefreshed, LoginCommand
    from segue.app.account_switch import AccountSwitched, CarryShown
    from segue.app.conversation_shapes import (
        AttachmentData,
        Chain,
        ChainTurn,
        ConversationHit,
        ConversationLineage,
        ConversationSession,
        MessagePage,
        MessageVersion,
        TurnChild,
        TurnLineage,
        TurnParent,
    )
    from segue.app.flow_shapes import EscalationOrder, FlowOrder, FlowReport, FlowShown, FlowStepShown
    from segue.app.run_shapes import (
        AttachmentOrder,
        Changed,
        Delta,
        FeedEvent,
        Hello,
        OpenQuestion,
        ReachedBudget,
        RunOptions,
        RunOrder,
        RunShown,
        ToolAnswer,
    )
    from segue.app.segue import Segue
    from segue.app.segue_accounts import Accounts
    from segue.app.segue_conversations import Conversations
    from segue.app.segue_flows import Flows
    from segue.app.segue_runs import Runs
    from segue.app.segue_sessions import NativeSessions
    from segue.app.session_shapes import (
        CheckReport,
        PrunedSession,
        PruneReport,
        RepairReport,
        RestoredSession,
        RestoreReport,
        SessionInfo,
    )
    from segue.app.settings import AgentSetting, SettingsShown
    from segue.app.shapes import (
        AgentShown,
        AllowedToolShown,
        ConversationShown,
        LastAnswer,
        LogMessage,
        SetupFinding,
        Undone,
    )
    from segue.app.subscriptions import FeedItem
    from segue.app.sync import (
        SyncAccounts,
        SyncConversations,
        SyncFlows,
        SyncNativeSessions,
        SyncRuns,
        SyncSegue,
    )
    from segue.app.usage import UnpaidTurn, UsageStatistics, UsageSum
    from segue.core.attachments import Attachment
    from segue.core.errors import (
        Broken,
        ConfigError,
        Conflict,
        DaemonUnavailable,
        Forbidden,
        Gone,
        InUse,
        Misuse,
        NotFound,
        NotInstalled,
        SegueError,
        StoreAway,
    )
    from segue.core.events import (
        Compacted,
        End,
        Event,
        Heard,
        LimitReport,
        Notice,
        Permission,
        Question,
        Retry,
        Session,
        Text,
        TextDelta,
        Thinking,
        ToolCall,
        ToolResult,
        Unknown,
        UsageReport,
    )
    from segue.core.ladder import Decision
    from segue.core.model import Attached
    from segue.core.request import Briefing, Capabilities, Terms
    from segue.core.transcript import Entry
    from segue.core.turn import AttemptShown, Check, FailureShown, RungShown, Saved, Sent, Turn
    from segue.core.usage import Context, LimitShown, Usage
    from segue.flows.context import Flow, FlowEnd
    from segue.flows.definition import FlowDefinition, flow
    from segue.runner.attempt import Cancel
    from segue.sessions.check import Finding
    from segue.sessions.copies.restore import CopyShown
    from segue.sessions.counts import Load, Tally
    from segue.sessions.reading import Page
    from segue.sessions.search.search import Hit
    from segue.sessions.summary import SessionShown
    from segue.turns.request import Options
    from segue.turns.why import Sends, Why

__version__ = "0.1.0"

_HOMES: dict[str, tuple[str, ...] | list[str]] = {
    "segue.app.account_shapes": ("AccountDetails", "AccountShown", "LimitsRefreshed", "LoginCommand"),
    "segue.agents.base": ("Answer",),
    "segue.app.account_switch": ("AccountSwitched", "CarryShown"),
    "segue.app.conversation_shapes": (
        "AttachmentData Chain ChainTurn ConversationHit ConversationLineage ConversationSession MessagePage "
        "MessageVersion TurnChild TurnLineage TurnParent"
    ).split(),
    "segue.app.segue": ("Segue",),
    "segue.app.segue_accounts": ("Accounts",),
    "segue.app.flow_shapes": ("EscalationOrder", "FlowOrder", "FlowReport", "FlowShown", "FlowStepShown"),
    "segue.app.segue_conversations": ("Conversations",),
    "segue.app.segue_flows": ("Flows",),
    "segue.app.run_shapes": (
        "AttachmentOrder Changed Delta FeedEvent Hello OpenQuestion ReachedBudget RunOptions RunOrder "
        "RunShown ToolAnswer"
    ).split(),
    "segue.app.segue_runs": ("Runs",),
    "segue.app.subscriptions": ("FeedItem",),
    "segue.app.segue_sessions": ("NativeSessions",),
    "segue.app.session_shapes": (
        "CheckReport PruneReport PrunedSession RepairReport RestoreReport RestoredSession SessionInfo"
    ).split(),
    "segue.app.settings": ("AgentSetting", "SettingsShown"),
    "segue.app.shapes": (
        "AgentShown AllowedToolShown ConversationShown LastAnswer LogMessage SetupFinding Undone"
    ).split(),
    "segue.app.sync": (
        "SyncAccounts",
        "SyncConversations",
        "SyncFlows",
        "SyncNativeSessions",
        "SyncRuns",
        "SyncSegue",
    ),
    "segue.app.usage": ("UnpaidTurn", "UsageStatistics", "UsageSum"),
    "segue.core.attachments": ("Attachment",),
    "segue.core.errors": (
        "Broken ConfigError Conflict DaemonUnavailable Forbidden Gone InUse Misuse NotFound NotInstalled "
        "SegueError StoreAway"
    ).split(),
    "segue.core.events": (
        "Compacted End Event Heard LimitReport Notice Permission Question Retry Session Text TextDelta "
        "Thinking ToolCall ToolResult Unknown UsageReport"
    ).split(),
    "segue.core.ladder": ("Decision",),
    "segue.core.model": ("Attached",),
    "segue.core.request": ("Briefing", "Capabilities", "Terms"),
    "segue.core.transcript": ("Entry",),
    "segue.core.turn": (
        "AttemptShown",
        "Check",
        "FailureShown",
        "RungShown",
        "Saved",
        "Sent",
        "Turn",
    ),
    "segue.core.usage": ("Context", "LimitShown", "Usage"),
    "segue.flows.context": ("Flow", "FlowEnd"),
    "segue.flows.definition": ("FlowDefinition", "flow"),
    "segue.runner.attempt": ("Cancel",),
    "segue.sessions.check": ("Finding",),
    "segue.sessions.copies.restore": ("CopyShown",),
    "segue.sessions.counts": ("Load", "Tally"),
    "segue.sessions.reading": ("Page",),
    "segue.sessions.search.search": ("Hit",),
    "segue.sessions.summary": ("SessionShown",),
    "segue.turns.request": ("Options",),
    "segue.turns.why": ("Sends", "Why"),
}
"""The public names of each module."""

__all__ = [
    "AccountDetails",
    "AccountShown",
    "AccountSwitched",
    "Accounts",
    "AgentSetting",
    "AgentShown",
    "AllowedToolShown",
    "Answer",
    "Attached",
    "Attachment",
    "AttachmentData",
    "AttachmentOrder",
    "AttemptShown",
    "Briefing",
    "Broken",
    "Cancel",
    "Capabilities",
    "CarryShown",
    "Chain",
    "ChainTurn",
    "Changed",
    "Check",
    "CheckReport",
    "Compacted",
    "ConfigError",
    "Conflict",
    "Context",
    "ConversationHit",
    "ConversationLineage",
    "ConversationSession",
    "ConversationShown",
    "Conversations",
    "CopyShown",
    "DaemonUnavailable",
    "Decision",
    "Delta",
    "End",
    "Entry",
    "EscalationOrder",
    "Event",
    "FailureShown",
    "FeedEvent",
    "FeedItem",
    "Finding",
    "Flow",
    "FlowDefinition",
    "FlowEnd",
    "FlowOrder",
    "FlowReport",
    "FlowShown",
    "FlowStepShown",
    "Flows",
    "Forbidden",
    "Gone",
    "Heard",
    "Hello",
    "Hit",
    "InUse",
    "LastAnswer",
    "LimitReport",
    "LimitShown",
    "LimitsRefreshed",
    "Load",
    "LogMessage",
    "LoginCommand",
    "MessagePage",
    "MessageVersion",
    "Misuse",
    "NativeSessions",
    "NotFound",
    "NotInstalled",
    "Notice",
    "OpenQuestion",
    "Options",
    "Page",
    "Permission",
    "PruneReport",
    "PrunedSession",
    "Question",
    "ReachedBudget",
    "RepairReport",
    "RestoreReport",
    "RestoredSession",
    "Retry",
    "RunOptions",
    "RunOrder",
    "RunShown",
    "RungShown",
    "Runs",
    "Saved",
    "Segue",
    "SegueError",
    "Sends",
    "Sent",
    "Session",
    "SessionInfo",
    "SessionShown",
    "SettingsShown",
    "SetupFinding",
    "StoreAway",
    "SyncAccounts",
    "SyncConversations",
    "SyncFlows",
    "SyncNativeSessions",
    "SyncRuns",
    "SyncSegue",
    "Tally",
    "Terms",
    "Text",
    "TextDelta",
    "Thinking",
    "ToolAnswer",
    "ToolCall",
    "ToolResult",
    "Turn",
    "TurnChild",
    "TurnLineage",
    "TurnParent",
    "Undone",
    "Unknown",
    "UnpaidTurn",
    "Usage",
    "UsageReport",
    "UsageStatistics",
    "UsageSum",
    "Why",
    "__version__",
    "flow",
]

if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> object:
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(home), name)
