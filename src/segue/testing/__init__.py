"""For those who write an adapter: the conformance kit.

from segue.testing import check_adapter

def test_conformance() -> None:
    assert check_adapter(AGENT, [recorded.read_bytes()], outputs=[version_text, help_text]) == []
"""

from segue.testing.conformance import check_adapter

__all__ = ["check_adapter"]
