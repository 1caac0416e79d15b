"""``segue account audit``: what was carried over from one account to another."""

from __future__ import annotations

from datetime import datetime

import click

from segue.cli.caller import open_here
from segue.cli.options import complete_keys
from segue.cli.render.output import say, say_json
from segue.core.attachments import size_words
from segue.core.usage import count_in_words


@click.command("audit", short_help="Show what was carried over between accounts.")
@click.argument("key", required=False, shell_complete=complete_keys)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def command(key: str | None, limit: int, as_json: bool) -> None:
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
        when = datetime.fromtimestamp(row.at / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
        say(f"{when}  {row.conversation}  {way}  {what}  asked by {row.asked_by}  {row.why}".rstrip())
