"""The conformance kit, for authors of adapters.

from segue.testing import check_adapter, check_sessions

def test_conformance() -> None:
    assert check_adapter(AGENT, [recorded.read_bytes()], outputs=[version_text, help_text]) == []
    assert check_sessions(AGENT, [home_with_sessions], outputs=[version_text, help_text]) == []
"""

from segue.testing.conformance import check_adapter
from segue.testing.formats import check_sessions

__all__ = ["check_adapter", "check_sessions"]
