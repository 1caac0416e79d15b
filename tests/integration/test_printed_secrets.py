"""What is kept of a secret that an agent prints: nothing, however its program encodes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Program

PROGRAM = f"""#!{sys.executable}
import json, os, sys
sys.stdin.read()
said = json.dumps("the key is " + os.environ["TOOL_TOKEN"]).replace("&", "\\\\u0026").replace("/", "\\\\/")
kind = sys.argv[1]
if kind == "stderr":
    print("the key is", os.environ["TOOL_TOKEN"], file=sys.stderr)
else:
    print('{{"type": "' + kind + '", "text": ' + said + '}}')
print('{{"type": "text", "text": "done"}}')
"""
KEY = "-----BEGIN KEY-----\nMIIEabcdefghijk\nMIIElmnopqrstuv\n-----END KEY-----"


@pytest.mark.parametrize(
    ("where", "secret"),
    [
        ("text", "pass&word/schlüssel"),
        ("unknown", "pass&word/schlüssel"),
        ("stderr", KEY),
        ("text", KEY),
        ("unknown", KEY),
    ],
)
def test_nothing_is_kept_of_a_secret_that_is_printed(
    segue: Program, tmp_path: Path, where: str, secret: str
) -> None:
    tool = tmp_path / "tool"
    tool.write_text(PROGRAM)
    tool.chmod(0o755)
    segue.config(
        f'[agents.tool]\ncommand = ["{tool}", "{where}"]\nstdin = "prompt"\noutput = "jsonl"\n'
        'text = { path = "$.text", when = { type = "text" } }\n'
        f'[accounts.a]\nagent = "tool"\nenv = {{ TOOL_TOKEN = {json.dumps(secret)} }}\n'
    )
    ran = segue("run", "t", "hello", "--account", "a", "--json")
    assert ran.code == 0, ran.stderr
    plain = json.dumps(secret)[1:-1]
    forms = {secret, plain, json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms |= {plain.replace("&", "\\u0026").replace("/", "\\/")}
    kept = {
        each: each.read_bytes()
        for each in segue.home.rglob("*")
        if each.name != "config.toml" and each.is_file()
    }
    kept |= {Path("stdout"): ran.stdout.encode(), Path("stderr"): ran.stderr.encode()}
    found = [each.name for each, data in kept.items() if any(form.encode() in data for form in forms)]
    assert found == []
