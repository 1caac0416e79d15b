"""The JSON objects: their keys, in their order, and that a schema can be made of each."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from segue.app import account_shapes, conversation_shapes, session_shapes, settings, shapes, usage
from segue.core import errors
from segue.core.turn import Turn
from segue.turns.why import Why

KEYS = {
    shapes.LogMessage: "id n from agent role account text attachments revision edited created blank kind run"
    " mode state status recovery model usage cost_usd cost_estimated saved_usd sent failure"
    " duration_ms tools_run notices notice_clauses context predicted_usd versions",
    shapes.ConversationShown: "key title agents agent account model role cwd messages state status recovery"
    " created last_used tokens cost_usd cost_estimated saved_usd forked_from starred unread allowed_tools"
    " asks until failure context queued",
    shapes.AllowedToolShown: "agent role tool",
    shapes.AgentShown: "agent label path version distribution capabilities accounts problem models",
    shapes.SetupFinding: "check level what fix what_clauses fix_clauses",
    shapes.ErrorShown: "schema error",
    shapes.ErrorDetail: "code message",
    conversation_shapes.AttachmentData: "id name media_type data",
    conversation_shapes.MessagePage: "messages first_id has_more rewrites size last_id has_newer events"
    " events_left_out",
    conversation_shapes.ConversationHit: "key title where message from agent snippet created",
    conversation_shapes.MessageVersion: "message revision text run created current",
    conversation_shapes.TurnParent: "kind run conversation session",
    conversation_shapes.TurnLineage: "run message agent role mode state created session parents n model"
    " account cost_usd cost_estimated duration_ms retry_of stands",
    conversation_shapes.TurnChild: "kind run conversation parent",
    conversation_shapes.ConversationLineage: "turns children",
    conversation_shapes.ChainTurn: "run conversation flow step role tier agent model mode state failure"
    " parent kind depth usage cost_usd cost_estimated duration_ms created",
    conversation_shapes.Chain: "turns usage cost_usd cost_estimated duration_ms",
    conversation_shapes.ConversationSession: "agent role account session cwd home path size context last_used"
    " expires command",
    usage.UsageSum: "name turns usage cost_usd cost_estimated saved_usd predicted_usd predicted_cost_usd"
    " resumed parts",
    usage.UsageStatistics: "schema by since sums total split",
    usage.UnpaidTurn: "run conversation message agent agent_version model mode created cost_usd saved_usd"
    " usage reason clauses",
    account_shapes.AccountShown: "name agent home env pass_env default directories limits pays budget",
    account_shapes.AccountDetails: "name agent home env pass_env default directories limits pays budget"
    " fingerprint problem carry_out carry_in never on_limit login_command",
    account_shapes.LimitsRefreshed: "account limits why_not",
    account_shapes.LoginCommand: "account agent command",
    settings.AgentSetting: "agent program declared",
    settings.SettingsShown: "schema home config_file project store host continuity recap retention limits"
    " budgets carry keep daemon queue defaults accounts agents prices models notices notice_clauses",
    session_shapes.SessionInfo: "id agent account cwd title title_by first_prompt last_prompt messages"
    " messages_estimated size tokens cost_usd context branch created last_used expires known conversation"
    " pinned ours tags agent_name model version parent path trouble command trouble_clauses load counts",
    session_shapes.CheckReport: "schema session agent sound load findings",
    session_shapes.RepairReport: "schema agent session path done size size_before rehearsed why_not findings"
    " conversation stays done_clauses why_not_clauses stays_clauses",
    session_shapes.RestoreReport: "schema restored",
    session_shapes.RestoredSession: "id agent account conversation path files size",
    session_shapes.PruneReport: "schema deleted freed failed sessions homes",
    session_shapes.PrunedSession: "id agent size last_used ours conversation path why why_clauses",
}
"""What scripts rely on. Keys may be added at the end, not renamed or moved."""


@pytest.mark.parametrize("shape", KEYS)
def test_keys_stay_what_they_are(shape: type[msgspec.Struct]) -> None:
    assert " ".join(field.encode_name for field in msgspec.structs.fields(shape)) == KEYS[shape]
    assert shape.__struct_config__.frozen
    assert not shape.__struct_config__.omit_defaults


def test_every_shape_is_listed() -> None:
    inner = {shapes.Dialogue, shapes.LastAnswer, shapes.Undone}
    structs = {
        value
        for module in (shapes, session_shapes, conversation_shapes, usage, settings, account_shapes)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == module.__name__
    }
    assert structs == {*KEYS, *inner}


def test_a_schema_can_be_made_of_all() -> None:
    _, components = msgspec.json.schema_components([*KEYS, Turn, Why])
    assert {shape.__name__ for shape in KEYS} <= components.keys()


def test_the_documented_errors_are_those_there_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "library.md").read_text()
    rows = re.findall(r"^\| `(\w+)`(?:, an? `\w+`)? \| `(\w+)` \| (\d+) \|", page, re.M)
    raised = {
        kind.__name__: (kind.code, str(kind.exit_code))
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SegueError)
    }
    assert {name: (code, exit_code) for name, code, exit_code in rows} == raised
