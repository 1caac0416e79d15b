"""Changes the user's ``config.toml``: single keys, checked before they are written; the rest stays."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from segue.config.build import build
from segue.config.home import Home, home_of
from segue.config.load import Tables
from segue.config.source import Source, read_text
from segue.config.toml_edit import Change, NotEditable, by_hand, edited
from segue.core.errors import ConfigError, Conflict
from segue.system.files import whole_file

BOM = b"\xef\xbb\xbf"


def change_config(env: Mapping[str, str], changes: Sequence[Change]) -> None:
    """Write the changes. Raises ``ConfigError`` if the file is not TOML, cannot be changed safely, or would
    be wrong with them; then nothing is written."""
    home = home_of(env)
    with _alone(home):
        # A link, for example to a directory of dot files, stays a link.
        path = Path(home.config_file).resolve()
        before = path.read_bytes() if path.exists() else b""
        text = read_text(path.name, before) if before else ""
        try:
            new = edited(text, changes)
        except NotEditable:
            how = by_hand(changes)
            raise ConfigError(
                f"{path} has a form that Segue does not change by itself; change it by hand: {how}"
            ) from None
        _check(path.name, new, env)
        if new != text:
            _write(path, before, new)


def _check(name: str, text: str, env: Mapping[str, str]) -> None:
    import tomllib

    tables = Tables()
    tables.add(Source(name, tomllib.loads(text), text))
    build(tables, env, project=None)


def _write(path: Path, before: bytes, text: str) -> None:
    def changed() -> bool:
        return (path.read_bytes() if path.exists() else b"") != before

    mode = path.stat().st_mode & 0o777 if before else 0o600
    with whole_file(path, mode=mode, unless=changed) as file:
        file.write((BOM if before.startswith(BOM) else b"") + text.encode())
    if changed() and path.read_bytes().removeprefix(BOM) != text.encode():
        raise Conflict(f"{path} was changed by another program at the same moment; try again")


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """One change after the other."""
    home.make(home.locks)
    with (home.locks / "config").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
