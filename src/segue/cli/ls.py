"""``segue ls``: the conversations there are."""

from __future__ import annotations

import os
import sys
import time

import click


@click.command("ls", short_help="List the conversations.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> None:
    """List the conversations, the last used first."""
    import msgspec

    from segue.cli import dialogue, words
    from segue.turns.opening import opened

    with opened(os.environ) as store:
        summaries = store.conversations()
    if as_json:
        rows = [
            {
                "key": each.conversation.key,
                "title": each.title,
                "agents": each.agents,
                "agent": each.conversation.agent or None,
                "account": each.conversation.account or None,
                "model": each.conversation.model,
                "role": each.conversation.role or None,
                "cwd": each.conversation.cwd or None,
                "messages": each.messages,
                "status": each.status,
                "created": each.conversation.created_ms,
                "last_used": each.last_used_ms,
                "tokens": each.tokens,
                "cost_usd": each.cost_usd,
                "saved_usd": each.saved_usd,
                "forked_from": each.conversation.forked_from,
            }
            for each in summaries
        ]
        print(msgspec.json.encode(rows).decode())
        return
    if not summaries:
        click.echo('No conversations yet. Begin one: segue run hello "hi"', err=True)
        return
    now = time.time_ns() // 1_000_000
    keys = max(len(each.conversation.key) for each in summaries)
    agents = max(len(", ".join(each.agents)) for each in summaries)
    width = dialogue.width_of(sys.stdout)
    for each in summaries:
        cost = words.money(each.cost_usd) if each.cost_usd is not None else "–"
        head = (
            f"{each.conversation.key:<{keys}}  {', '.join(each.agents):<{agents}}"
            f"  {each.messages:>4}  {cost:>7}  {dialogue.age(each.last_used_ms, now):>12}  "
        )
        title = words.one_line(each.title)
        click.echo((head + title)[: max(width, len(head))])
