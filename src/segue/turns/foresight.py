"""stub"""
from __future__ import annotations
from segue.core.turn import Saved
class P:
    usd: float | None = None
def predicted(*a: object) -> dict[str, P]:
    return {m: P() for m in ("resume","branch","graft","replay","recap","fresh")}
def saved(*a: object) -> Saved:
    return Saved()
