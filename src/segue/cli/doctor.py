"""``segue doctor``: everything a newcomer trips over, each with the way to fix it."""

from __future__ import annotations

import os

import click

from segue.cli.output import DIM, GREEN, PLAIN, RED, YELLOW, say, say_json

SIGNS = {"ok": "✓", "note": "·", "warn": "!", "bad": "✗"}
INKS = {"ok": GREEN, "note": DIM, "warn": YELLOW, "bad": RED}


@click.command("doctor", short_help="Check the set-up.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of findings.")
def command(as_json: bool) -> int:
    """Check the set-up: directories, configuration, agents, logins, environment.

    ✓ is well, · is worth knowing, ! may surprise you, ✗ must be fixed. Exit code 1 if there is any ✗.
    """
    from pathlib import Path

    from segue.cli.checks import examine

    bad = 0
    findings = []
    for finding in examine(os.environ, Path.cwd()):
        bad += finding.level == "bad"
        findings.append(finding)
        if not as_json:
            say(f"{INKS[finding.level]}{SIGNS[finding.level]}{PLAIN} {finding.what}")
            if finding.fix:
                say(f"    → {finding.fix}")
    if as_json:
        say_json(findings)
    return 1 if bad else 0
