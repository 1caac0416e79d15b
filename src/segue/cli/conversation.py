"""``segue edit``, ``truncate``, ``undo``, ``fork``, ``rm``, ``export`` and ``import``."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from segue.cli.caller import gather_prompt, open_here
from segue.cli.options import complete_keys
from segue.cli.render.output import agreed, answer, say
from segue.core.usage import count_in_words

if TYPE_CHECKING:
    from segue import Segue

NOTHING = "the new text is empty; to drop a message, use segue truncate"
KINDS = {"edit": "the edit", "truncate": "the truncation", "retry": "the retry"}
T = TypeVar("T")


def change(work: Callable[[Segue], Awaitable[T]]) -> T:
    import anyio

    from segue import Segue

    async def go() -> T:
        async with Segue() as segue:
            return await work(segue)

    return anyio.run(go)


def dropped(count: int) -> str:
    return f"dropped {count_in_words(count, 'message')}"


def undo_hint(key: str) -> str:
    return f"To undo: segue undo {key}. What the next turn will do: segue why {key}"


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
    new = gather_prompt(text, use_stdin=text is None, nothing=NOTHING)
    count = change(lambda segue: segue.edit(key, message, new, cut=cut))
    which = f"#{message.removeprefix('#')}" if message.removeprefix("#").isdecimal() else message
    gone = f", {dropped(count)}" if count else ""
    say(f"Changed {which}{gone}. {undo_hint(key)}", err=True)


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
    say(change(lambda segue: segue.fork(key, new_key, upto=upto)))


@click.command("import", short_help="Create a conversation from an export.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--key", metavar="K", help="Use this key. Default: the key in the export.")
def import_(file: Path, key: str | None) -> None:
    """Create a conversation from FILE, written by segue export --json (- for stdin), and print its key.

    Only messages are imported, not native sessions, so the first turn sends the conversation as text.
    """
    from segue.app import conversations
    from segue.core.errors import Misuse

    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.expanduser().read_bytes()
    except OSError as error:
        raise Misuse(f"cannot read {file}: {error.strerror}") from None
    with open_here() as workspace:
        say(conversations.import_(workspace, data, key))


@click.command("rm", short_help="Forget a conversation.")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...", shell_complete=complete_keys)
@click.option("--yes", "-y", is_flag=True, help="Do not ask first.")
def rm(keys: tuple[str, ...], yes: bool) -> None:
    """Forget conversations: their messages, turns and costs, and Segue's copies of their sessions.

    The agents' own sessions stay on disk. On a terminal, it asks first.
    """
    keys = tuple(dict.fromkeys(keys))
    if not yes and sys.stdin.isatty() and not agreed(f"Forget {', '.join(keys)}?"):
        raise click.Abort

    change(lambda segue: segue.rm(*keys))
    say(f"Forgot {', '.join(keys)}.", err=True)


@click.command("truncate", short_help="Drop a message and everything after it.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message")
def truncate(key: str, message: str) -> None:
    """Drop MESSAGE (its id or #n) of the conversation KEY and everything after it.

    The next turn continues from the point before it. Dropped messages stay in the store, but no agent sees
    them; segue undo restores them.
    """
    count = change(lambda segue: segue.truncate(key, message))
    say(f"{dropped(count).capitalize()}. {undo_hint(key)}", err=True)


@click.command("undo", short_help="Undo the last edit, truncation or retry.")
@click.argument("key", shell_complete=complete_keys)
def undo(key: str) -> None:
    """Undo the last edit, truncation or retry of the conversation KEY, if nothing was said since.

    Run it again to undo the change before that. If something was said since, use segue fork to continue from
    an earlier message instead.
    """
    done = change(lambda segue: segue.undo(key))
    restored = f"; restored {count_in_words(done.restored, 'message')}" if done.restored else ""
    say(f"Undid {KINDS[done.kind]}{restored}. See: segue log {key}", err=True)
