"""Which variables lead to a real provider, and where they lead on the stage."""

from __future__ import annotations

import re
from collections.abc import Mapping

from segue.core.environment import is_mark, looks_secret

_PROVIDERS = (
    *("ANTHROPIC_", "CLAUDE_", "AWS_BEARER_TOKEN_", "CLOUD_ML_", "VERTEX_"),
    *("OPENAI_", "CODEX_", "AZURE_OPENAI_"),
    *("GEMINI_", "GOOGLE_", "CODE_ASSIST_"),
    *("MISTRAL_", "VIBE_"),
)
"""How the CLIs' own variables begin: keys, tokens, addresses, and switches to other clouds among them. All
are taken out, because the next version may know one more."""
_TUNING = re.compile(
    r"(ANTHROPIC|CLAUDE|GEMINI)_(\w+_)?(MODEL|EFFORT|LOG|(MAX|DISABLE|DEBUG)_\w+|TIMEOUT_MS)"
)
"""What is left in: it changes how a CLI works, not where it calls."""
_OURS = re.compile(r"SEGUE_(ACCOUNTS|STORE)(_\w+)?")
"""Accounts by variable come along with the user's others; the store never does."""
_ADDRESSES = ("_URL", "_BASE", "_ENDPOINT", "_HOST")
_BELOW_V1 = ("OPENAI_", "MISTRAL_")
"""Whose addresses have the version of the protocol at their end."""


def leads_away(name: str) -> bool:
    """Whether a variable could make a CLI call somebody else than the model."""
    if is_mark(name) or _OURS.fullmatch(name) or name.upper().endswith("_PROXY"):
        return True
    return name.startswith(_PROVIDERS) and not _TUNING.fullmatch(name)


def harmless(env: Mapping[str, str]) -> dict[str, str]:
    """What neither leads away nor is a secret."""
    return {name: value for name, value in env.items() if not (leads_away(name) or looks_secret(name))}


def turned(env: Mapping[str, str], url: str, key: str) -> dict[str, str]:
    """For an agent of the user's own: a provider's address is the model's, and every secret is its key."""
    kept = harmless(env)
    for name in env.keys() - kept.keys():
        if looks_secret(name):
            kept[name] = key
        elif name.endswith(_ADDRESSES):
            kept[name] = f"{url}/v1" if name.startswith(_BELOW_V1) else url
    return kept
