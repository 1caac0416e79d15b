"""Opens the store that the configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from segue.config.homes import home_of
from segue.config.load import load
from segue.store.store import Store, open_store


def opened(env: Mapping[str, str]) -> Store:
    """The store of this environment; it is made if it is not there yet."""
    home = home_of(env)
    home.make(home.root)
    return open_store(load(env, Path.cwd()).store.url, home.store)
