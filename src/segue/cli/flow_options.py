"""The options that all commands have which start a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

FLOW_OPTIONS = (
    click.option("--cwd", metavar="DIR", help="Where the agents work.  [default: the current directory]"),
    click.option("--key", metavar="NAME", help="Your name for it: the same key again continues it."),
    click.option("--label", default="", metavar="TEXT", help="A text that is shown with it."),
    click.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="What it may cost before it asks you.",
    ),
    click.option("--no-daemon", is_flag=True, help="Run it in this process, even if a daemon runs."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end."),
    click.option("--quiet", "-q", is_flag=True, help="Do not show the steps."),
)


def with_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The decorators, so that their options are shown in this order."""

    def decorate(function: Any) -> Any:
        for each in reversed(options):
            function = each(function)
        return function

    return decorate
