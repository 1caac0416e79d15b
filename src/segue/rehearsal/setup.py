"""How each CLI is pointed at the loopback model: variables and files, as values.

`home` is what the CLI itself calls its home: `CLAUDE_CONFIG_DIR`, `CODEX_HOME`, `VIBE_HOME`, and for Gemini
the directory that holds `.gemini`. The key is the model's own and opens nothing else; nothing in here names
any address but the model's.
"""

import json
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from segue.rehearsal.log import write_private

CODEX_MODEL = "gpt-5.5"
"""One that every version under test knows or takes without a warning, and that is told its tools in the way
that the loopback model understands."""
_SECONDS_PER_RETRY = 2.0


class Pointing(Struct, frozen=True):
    """Variables to add to the environment, and files to write, by their path under the home."""

    env: dict[str, str]
    files: dict[Path, str]

    def write(self, home: Path) -> None:
        for path, text in self.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            write_private(home / path, text)


def point(agent: str, url: str, home: Path, *, key: str, retries: int | None = None) -> Pointing:
    """Point `claude`, `codex`, `gemini` or `vibe` at the model; `retries` caps how often it asks again."""
    try:
        pointer = _POINTERS[agent]
    except KeyError:
        raise ValueError(
            f"no way is known to point {agent!r} at a model; known: {', '.join(_POINTERS)}"
        ) from None
    return pointer(url.rstrip("/"), key, home, retries)


def _claude(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "CLAUDE_CONFIG_DIR": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
    }
    if retries is not None:
        env["CLAUDE_CODE_MAX_RETRIES"] = str(retries)
    return Pointing(env, {})


def _codex(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    limits = "" if retries is None else f"request_max_retries = {retries}\nstream_max_retries = {retries}\n"
    config = f"""\
model = "{CODEX_MODEL}"
model_provider = "rehearsal"
check_for_update_on_startup = false

[model_providers.rehearsal]
name = "rehearsal"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "REHEARSAL_API_KEY"
{limits}
[analytics]
enabled = false

[features]
plugins = false
"""
    return Pointing({"CODEX_HOME": str(home), "REHEARSAL_API_KEY": key}, {Path("config.toml"): config})


def _gemini(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    general: dict[str, object] = {"disableAutoUpdate": True, "disableUpdateNag": True}
    if retries is not None:
        general["maxAttempts"] = retries + 1
    settings = {
        "general": general,
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    env = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": key, "GEMINI_CLI_HOME": str(home)}
    return Pointing(env, {Path(".gemini/settings.json"): json.dumps(settings, indent=2) + "\n"})


def _vibe(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    limit = "" if retries is None else f"api_retry_max_elapsed_time = {retries * _SECONDS_PER_RETRY}\n"
    config = f"""\
active_model = "rehearsal"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
enable_notifications = false
{limit}
[[providers]]
name = "rehearsal"
api_base = "{url}/v1"
api_key_env_var = "REHEARSAL_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "rehearsal"
provider = "rehearsal"
alias = "rehearsal"
input_price = 0.4
output_price = 2.0
"""
    return Pointing(
        {"VIBE_HOME": str(home), "MISTRAL_API_KEY": key, "REHEARSAL_API_KEY": key},
        {Path("config.toml"): config},
    )


_POINTERS: dict[str, Callable[[str, str, Path, int | None], Pointing]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "vibe": _vibe,
}
