"""``segue account switch`` and ``audit``: another account for a conversation, and what was carried over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from segue.cli.caller import open_here
from segue.cli.change import change
from segue.cli.options import complete_keys
from segue.cli.render.output import say, say_json
from segue.cli.render.words import money
from segue.core.attachments import size_words
from segue.core.usage import count_in_words

CONSENT = "What was said before will be sent to the provider under the new account."


CARRIES = ("raw", "summary")


class _Switch(click.Command):
    """``--carry`` may stand before a word that is not its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_values(args)))


def _with_values(args: list[str]) -> Iterator[str]:
    """The arguments; ``--carry`` without a value gets the usual one."""
    for at, word in enumerate(args):
        named = word == "--carry" and "--" not in args[:at]
        yield "--carry=raw" if named and args[at + 1 : at + 2] not in ([each] for each in CARRIES) else word


@click.command("switch", cls=_Switch, short_help="Continue a conversation under another account.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("account")
@click.option(
    "--carry",
    type=click.Choice(CARRIES),
    is_flag=False,
    flag_value="raw",
    metavar="[raw|summary]",
    help="Carry over what was said before: its last turns as text (raw, the default), or a summary that the"
    " old account writes (if it cannot, raw).",
)
@click.option("--cancel", is_flag=True, help="Cancel what runs in the conversation first.")
@click.option(
    "--queued",
    type=click.Choice(["keep", "move"]),
    help="Runs that wait keep their account, or move to the new one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def switch(
    key: str, account: str, carry: str | None, cancel: bool, queued: str | None, as_json: bool
) -> None:
    """Continue the conversation KEY under ACCOUNT from its next turn on (none: the agent's usual login).

    The new account starts with a fresh session and is not shown what was said before. With --carry, the last
    turns are put before its first message, as context. They are then sent to the provider under the new
    account. Going back later continues the old session.
    """
    done = change("account switch", key=key, account=account, carry=carry, cancel=cancel, queued=queued)
    if as_json:
        say_json(done)
        return
    say(f"{key} continues under {done['account'] or 'no account'} ({done['agent']}).", err=True)
    say(told(done), err=True)


def told(done: dict[str, Any]) -> str:
    """What was carried over, or how to do it."""
    carried, hidden = done["carried"], done["hidden"]
    if carried is not None and carried["mode"] != "none":
        return f"{_what(carried)} {CONSENT}"
    if carried is not None:
        return f"Nothing was carried over: {carried['why']}."
    if not hidden:
        return "Nothing was carried over."
    left = f"Not carried over: {count_in_words(hidden, 'message')}."
    if done["forbidden"]:
        return f"{left} A rule forbids it: {done['forbidden']} ([carry] in config.toml)."
    command = f"segue account switch {done['conversation']} {done['account'] or 'none'} --carry"
    return f"{left} To carry them over: {command}"


def _what(carried: dict[str, Any]) -> str:
    turns, size = count_in_words(carried["turns"], "turn"), size_words(carried["bytes"])
    cost, left_out, lost = carried["cost_usd"], carried["left_out"], ""
    if left_out:
        lost = f"; it is too long, and {left_out:,} bytes of it are left out"
    if carried["omitted"]:
        lost += "; earlier turns are left out"
    if carried["mode"] == "summary":
        return f"Carried over a summary of {turns}, {size}{lost}; writing it: {money(cost)}."
    if not carried["why"]:
        return f"Carried over {turns}, {size}{lost}."
    tried = f"; trying it: {money(cost)}" if cost is not None else ""
    how = "" if left_out else " as it is" if carried["turns"] == 1 else " as they are"
    return f"Carried over {turns}{how}, {size}{lost} ({carried['why']}{tried})."


@click.command("audit", short_help="Show what was carried over between accounts.")
@click.argument("key", required=False, shell_complete=complete_keys)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def audit(key: str | None, limit: int, as_json: bool) -> None:
    """Show what was carried over from one account to another, newest first: in KEY, or in all conversations.

    The record stays if a conversation is deleted. It never contains what was said.
    """
    from segue.app.account_switch import carries

    with open_here() as workspace:
        rows = carries(workspace, key, limit)
    if as_json:
        say_json(rows)
        return
    if not rows:
        say("Nothing was carried over.", err=True)
    for row in rows:
        way = f"{row.from_account or 'none'} → {row.to_account or 'none'}"
        what = f"{row.mode}, {count_in_words(row.turns, 'turn')}, {size_words(row.bytes)}"
        what += f", {row.left_out:,} bytes left out" if row.left_out else ""
        if row.mode == "flow":  # its prompts carry, as long as it runs
            what = row.mode
        when = datetime.fromtimestamp(row.at / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
        say(f"{when}  {row.conversation}  {way}  {what}  asked by {row.asked_by}  {row.why}".rstrip())
