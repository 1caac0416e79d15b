"""``segue doctor``: what is wrong with the set-up, and how to fix it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from segue.cli.render.output import DIM, GREEN, PLAIN, RED, YELLOW, prose_width, say, say_json
from segue.cli.render.table import wrapped

if TYPE_CHECKING:
    from segue import SetupFinding

SIGNS = {"ok": "✓", "note": "·", "warn": "!", "bad": "✗"}
INKS = {"ok": GREEN, "note": DIM, "warn": YELLOW, "bad": RED}


@click.command("doctor", short_help="Check the set-up.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of findings.")
def command(as_json: bool) -> int:
    """Check the set-up: directories, configuration, agents, logins, environment.

    ✓ is fine, · is worth knowing, ! may cause surprises, ✗ must be fixed. The exit code is 1 if there is a ✗.
    """
    from pathlib import Path

    from segue.app.doctor import examine

    bad, width = 0, prose_width(sys.stdout)
    findings = []
    for finding in examine(os.environ, Path.cwd()):
        bad += finding.level == "bad"
        findings.append(finding)
        if not as_json:
            for line in lines(finding, width):
                say(line)
    if as_json:
        say_json(findings)
    return 1 if bad else 0


def lines(finding: SetupFinding, width: int) -> Iterator[str]:
    """What was found, and below it what to do."""
    first, *others = wrapped(finding.what, width, 2, f"{SIGNS[finding.level]} ")
    yield f"{INKS[finding.level]}{first[0]}{PLAIN}{first[1:]}"
    yield from others
    if finding.fix:
        yield from wrapped(finding.fix, width, 6, "    → ")
