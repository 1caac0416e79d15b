"""What the parts of the store have in common: the connection."""

from __future__ import annotations

from segue.store.database import Database


class Part:
    """One subject of the store; ``Store`` is all of them."""

    def __init__(self, db: Database) -> None:
        self.db = db
