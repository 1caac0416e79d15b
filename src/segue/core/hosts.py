"""Which host something is on: an id that stays when the host is renamed, and a name for people."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Placed(Protocol):
    """What lies on a host: a pin, a session, a copy, a process. Rows of older stores know the name alone."""

    @property
    def host(self) -> str: ...
    @property
    def host_id(self) -> str | None: ...


class Host(msgspec.Struct, frozen=True):
    """Whoever shares a store: one home of Segue, with all that lies beside it."""

    name: str
    id: str | None = None
    """None: nobody can tell; then the name has to do."""

    def has(self, thing: Placed) -> bool:
        """Whether it is here. Two hosts may have one name, and one host another name than before."""
        if self.id is None or thing.host_id is None:
            return self.name == thing.host
        return self.id == thing.host_id
