"""A right command line of ``segue run`` is parsed without click; the result is the same as click's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.cli.options import native_args
from segue.cli.run import command
from segue.cli.turn_options import POSTURES, QUESTIONS, RUN, Option, run_call
from segue.core.request import Posture, Questions

VALUES = st.sampled_from(
    ["claude", "none", "0", "1", "7", "0.5", "-1", "inf", "1e13", "5h", "full", "on", "", "--json"]
)
WORDS = st.sampled_from(["key", "hello you", "-", "a=b", "=", "é"])


def by_click(args: list[str]) -> tuple[object, ...] | None:
    """What click makes of it; None if it refuses."""
    try:
        with command.make_context("run", list(args)) as ctx:
            given_options: dict[str, Any] = dict(ctx.params)
            key, text = given_options.pop("key"), given_options.pop("text")
            return key, text, given_options, native_args(ctx)
    except click.exceptions.Exit:  # --help
        return None
    except click.ClickException:
        return None


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    args: list[str] = []
    for option in draw(st.lists(st.sampled_from(RUN), max_size=5)):
        if option.kind == "flag":
            args.append(draw(st.sampled_from([option.flag, option.short or option.flag])))
        elif option.kind == "park" and draw(st.booleans()):
            args.append(option.flag)
        elif draw(st.booleans()):
            args.append(f"{option.flag}={draw(VALUES)}")
        else:
            args += [option.flag, draw(VALUES)]
    for word in draw(st.lists(WORDS, min_size=0, max_size=3)):
        args.insert(draw(st.integers(0, len(args))), word)
    if draw(st.booleans()):
        args += ["--", "--native", "x"]
    return args


@settings(max_examples=1000, deadline=None)
@given(command_lines())
def test_it_never_differs_from_click(args: list[str]) -> None:
    ours = run_call(["run", *args], {})
    if ours is not None:
        assert ours == by_click(args)


def valid(option: Option) -> list[str]:
    match option.kind:
        case "flag":
            return [option.flag]
        case "choice":
            return [option.flag, option.choices[-1]]
        case "count" | "amount" | "budget" | "park":
            return [option.flag, "3"]
        case _:
            return [option.flag, "x"]


@pytest.mark.parametrize("option", RUN, ids=lambda option: option.flag)
def test_every_option_is_understood(option: Option) -> None:
    args = ["key", *valid(option), "text"]
    ours = run_call(["run", *args], {})
    assert ours is not None
    assert ours == by_click(args)


@pytest.mark.parametrize(
    "args",
    [
        *([], ["--version"], ["ls"], ["runs", "k"], ["run"], ["run", "--help"], ["run", "k", "-h"]),
        *(["run", "k", "a", "b"], ["run", "k", "--agnet", "claude"], ["run", "k", "--agent"]),
        *(["run", "k", "--timeout", "0"], ["run", "k", "--permission", "all"], ["run", "k", "--json=yes"]),
    ],
)
def test_click_sees_everything_else(args: list[str]) -> None:
    assert run_call(args, {}) is None


@pytest.mark.parametrize(
    ("args", "park", "text"),
    [
        *(
            (["--park", "hi"], True, "hi"),
            (["hi", "--park"], True, "hi"),
            (["--park", "5h", "hi"], 18_000, "hi"),
        ),
        *((["hi", "--park=90"], 90, "hi"), (["--park", "--json", "hi"], True, "hi"), (["hi"], None, "hi")),
    ],
)
def test_what_follows_park_is_its_value_only_if_it_is_a_duration(
    args: list[str], park: object, text: str
) -> None:
    ours = run_call(["run", "k", *args], {})
    assert ours is not None
    assert (ours[2]["park"], ours[1]) == (park, text)
    assert ours == by_click(["k", *args])


def test_completion_is_clicks() -> None:
    assert run_call(["run", "k"], {"_SEGUE_COMPLETE": "bash_complete"}) is None


def test_the_choices_are_those_of_a_request() -> None:
    assert (get_args(Posture), get_args(Questions)) == (POSTURES, QUESTIONS)


def test_a_turn_is_started_without_click(tmp_path: Path) -> None:
    code = (
        "import sys; from segue.cli import main\n"
        "sys.argv = ['segue', 'run', 'k', 'hi', '--agent', 'no-such-agent', '--no-stdin']\n"
        "try: main.main()\nexcept SystemExit: print('click' in sys.modules)"
    )
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "SEGUE_HOME": str(tmp_path / "segue")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert (done.stdout.strip(), "no-such-agent" in done.stderr) == ("False", True)
