"""Contrast: every text colour on every ground, in both themes, and the lines of controls. No browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = Path(__file__).parents[2] / "src/segue/server/page/style.css"
TEXT, GRAPHIC = 4.5, 3.0
GROUNDS = ("bg", "bg-side", "bg-hover", "bg-sel", "bg-code")
ON_THEIR_OWN = {
    "on-accent": ("accent",),  # the text of the main button
    "bg": ("ink", "failed"),  # one line at the bottom, and buttons that delete
    "add-ink": (*GROUNDS, "add-bg"),
    "del-ink": (*GROUNDS, "del-bg"),
    "ink": (*GROUNDS, "mark"),
}
DECORATION = {"line-ctl"}
"""Colours of signs between words. They need not be read."""
GRAPHICS = ("line-ctl", "running", "needs", "parked", "failed", "idle", "accent")
MODES = ("resume", "branch", "graft", "replay", "recap", "fresh")


@pytest.fixture(scope="session", autouse=True)
def alone() -> None:
    """Nothing is started here."""


def sheet() -> str:
    return re.sub(r"/\*.*?\*/", "", CSS.read_text(), flags=re.DOTALL)


def colours(theme: int) -> dict[str, str]:
    """The colours of a theme, by name: 0 is light, 1 is dark."""
    css = sheet()
    pairs = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", css)
    found = {name: (light, dark)[theme] for name, light, dark in pairs}
    for name, other in re.findall(r"--([\w-]+): var\(--([\w-]+)\)", css):
        if other in found and name not in ("c",):
            found[name] = found[other]
    return found


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def used_for_text() -> set[str]:
    """The names that stand behind ``color:``, and those that a mode gives to ``--c``."""
    found = set(re.findall(r"(?<![\w-])color: var\(--([\w-]+)[,)]", sheet()))
    return (found | set(MODES)) - {"c"} - DECORATION


def test_the_measure_is_right() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_can_be_read_on_every_ground(theme: int) -> None:
    known = colours(theme)
    poor = [
        f"--{text} on --{ground}: {ratio:.2f}"
        for text in sorted(used_for_text())
        for ground in ON_THEIR_OWN.get(text, GROUNDS)
        if (ratio := contrast(known[text], known[ground])) < TEXT
    ]
    assert poor == []


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_controls_and_marks_can_be_seen(theme: int) -> None:
    known = colours(theme)
    poor = [
        f"--{mark} on --{ground}: {ratio:.2f}"
        for mark in GRAPHICS
        for ground in GROUNDS
        if (ratio := contrast(known[mark], known[ground])) < GRAPHIC
    ]
    assert poor == []


def test_fields_have_lines_that_can_be_seen() -> None:
    css = sheet()
    for rule in (".field", ".entry", ".switch input"):
        body = re.search(rf"(?m)^{re.escape(rule)} \{{([^}}]*)\}}", css)
        assert body is not None, rule
        assert "border: 1px solid var(--line-ctl)" in body[1], rule


def test_all_colours_are_tokens() -> None:
    """A colour that is written anywhere but in the list of names would have one theme only."""
    rules = re.sub(r":root \{.*?\n\}", "", sheet(), count=1, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![\w-]*[^;{}]*\{)", rules) == []
    assert re.findall(r"\b(?:rgb|hsl)a?\(", rules) == []


def test_every_token_is_defined() -> None:
    css = sheet()
    defined = set(re.findall(r"--([\w-]+)\s*:", css))
    assert set(re.findall(r"var\(--([\w-]+)", css)) - defined == set()
