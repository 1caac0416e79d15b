"""``segue edit``, ``truncate``, ``undo``, ``fork``, ``rm``, ``export`` and ``import``."""

from __future__ import annotations

import click

from segue.cli import conversation_change
from segue.cli.caller import open_here
from segue.cli.options import complete_keys
from segue.cli.render.output import answer


@click.command("edit", short_help="Change a message.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message")
@click.argument("text", required=False)
@click.option("--cut", is_flag=True, help="Drop everything after the message.")
def edit(key: str, message: str, text: str | None, cut: bool) -> None:
    """Change MESSAGE (its id or #n) of the conversation KEY to TEXT, or to what is piped in.

    The messages after it stay, unless --cut is given. The agent continues from the last point before the
    change.
    """
    conversation_change.edit(key, message, text, cut=cut)


@click.command("export", short_help="Write a conversation as Markdown or JSON.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, which segue import accepts.")
def export(key: str, as_json: bool) -> None:
    """Write the conversation KEY to stdout, as Markdown to read, or with --json as JSON to import.

    The ids of native sessions are written as short hashes: you can compare them, but not resume them.
    """
    from segue.app import conversations

    with open_here() as workspace:
        exported = conversations.export(workspace, key, "json" if as_json else "markdown")
    answer(exported)


@click.command("fork", short_help="Continue from here under a new key.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("new_key", required=False)
@click.option("--at", "upto", metavar="MESSAGE", help="Copy up to this message (its id or #n). Default: all.")
def fork(key: str, new_key: str | None, upto: str | None) -> None:
    """Create a conversation that begins with the messages of KEY, and print its key.

    Default for NEW_KEY: KEY~2. The first turn of the fork continues in a branch of the agent's session. The
    conversation KEY itself does not change.
    """
    conversation_change.fork(key, new_key, upto=upto)


@click.command("import", short_help="Create a conversation from an export.")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--key", metavar="K", help="Use this key. Default: the key in the export.")
def import_(file: str, key: str | None) -> None:
    """Create a conversation from FILE, written by segue export --json (- for stdin), and print its key.

    Only messages are imported, not native sessions, so the first turn sends the conversation as text.
    """
    conversation_change.import_(file, key=key)


@click.command("rm", short_help="Forget a conversation.")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...", shell_complete=complete_keys)
@click.option("--yes", "-y", is_flag=True, help="Do not ask first.")
def rm(keys: tuple[str, ...], yes: bool) -> None:
    """Forget conversations: their messages, turns and costs, and Segue's copies of their sessions.

    The agents' own sessions stay on disk. On a terminal, it asks first.
    """
    conversation_change.rm(keys, yes=yes)


@click.command("truncate", short_help="Drop a message and everything after it.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message")
def truncate(key: str, message: str) -> None:
    """Drop MESSAGE (its id or #n) of the conversation KEY and everything after it.

    The next turn continues from the point before it. Dropped messages stay in the store, but no agent sees
    them; segue undo restores them.
    """
    conversation_change.truncate(key, message)


@click.command("undo", short_help="Undo the last edit, truncation or retry.")
@click.argument("key", shell_complete=complete_keys)
def undo(key: str) -> None:
    """Undo the last edit, truncation or retry of the conversation KEY, if nothing was said since.

    Run it again to undo the change before that. If something was said since, use segue fork to continue from
    an earlier message instead.
    """
    conversation_change.undo(key)
