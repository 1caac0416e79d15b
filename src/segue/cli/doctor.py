"""``segue doctor``: everything a newcomer trips over, each with the way to fix it."""

from __future__ import annotations

import os

import click
import msgspec

SIGNS = {"ok": "✓", "note": "·", "warn": "!", "bad": "✗"}
STYLES = {"ok": "green", "note": "bright_black", "warn": "yellow", "bad": "red"}


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
            sign = click.style(SIGNS[finding.level], fg=STYLES[finding.level])
            click.echo(f"{sign} {finding.what}")
            if finding.fix:
                click.echo(f"    → {finding.fix}")
    if as_json:
        click.echo(msgspec.json.encode(findings).decode())
    return 1 if bad else 0
