"""What a turn loads and prepares: each module and each type that it does not need would delay its end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ANSWER = Path(__file__).parents[1] / "fixtures" / "streams" / "claude-2.1.325" / "recall.jsonl"
CLAUDE = f"""#!/bin/sh
case "$1" in
  --version) echo '2.1.325 (Claude Code)';;
  --help) echo 'Usage: claude --resume --input-format';;
  *) cat '{ANSWER}';;
esac
"""
PROBE = """
import json, os, sys, threading
unevaluated = set()
def see(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        kind = frame.f_locals["obj"]
        if any(isinstance(each, str) for each in kind.__dict__.get("__annotations__", {}).values()):
            unevaluated.add(f"{kind.__module__}.{kind.__name__}")
def end(code):
    seen = {"code": code, "modules": sorted(sys.modules), "unevaluated": sorted(unevaluated)}
    print(json.dumps(seen), file=sys.__stdout__, flush=True)
    leave(code)
leave, os._exit = os._exit, end
threading.setprofile(see)
sys.setprofile(see)
sys.argv = ["segue", "run", "talk", "hi", "--agent", "claude", "--quiet", "--json", "--no-daemon"]
from segue.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the second turn of a conversation has loaded when it ends."""
    folder = tmp_path_factory.mktemp("loading")
    program = folder / "claude"
    program.write_text(CLAUDE)
    program.chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "SEGUE_HOME": str(folder / "segue")}
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", PROBE],
            capture_output=True,
            text=True,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
        )
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert found["code"] == 0, ran.stdout + ran.stderr
    return found


def test_what_few_turns_need_is_not_loaded(seen: dict[str, Any]) -> None:
    rare = {"shutil", "gzip", "bz2", "lzma", "secrets", "random", "hmac"}
    assert not rare & set(seen["modules"])


def test_types_that_a_turn_decodes_have_their_annotations(seen: dict[str, Any]) -> None:
    """msgspec would have to compile each one that is a string. The module of such a type does without
    ``from __future__ import annotations``."""
    assert seen["unevaluated"] == []


def test_what_concludes_a_turn_is_loaded_while_the_agent_works() -> None:
    first_line = """
import sys
from segue.agents.claude.adapter import AGENT
before = set(sys.modules)
AGENT.parse(b'{"type":"system"}')
print(*sorted(set(sys.modules) - before))
"""
    ran = subprocess.run([sys.executable, "-c", first_line], capture_output=True, text=True, check=True)
    assert {"segue.agents.claude.stream", "segue.agents.claude.verdict"} <= set(ran.stdout.split())
