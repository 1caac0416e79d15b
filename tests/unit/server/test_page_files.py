"""The files of the page: its types fit the API, its libraries are unchanged, all imports exist."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
from pathlib import Path

import pytest

from segue.server import routes_page

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "src/segue/server/page"
MODULES = sorted(each.name for each in PAGE.glob("*.js"))


def test_the_types_are_those_of_the_api() -> None:
    made = runpy.run_path(str(ROOT / "scripts/page_types.py"))["text"]()
    assert (PAGE / "types.d.ts").read_text("utf-8") == made, "run scripts/page_types.py"


def test_the_libraries_are_unchanged_and_have_their_licences() -> None:
    manifest = json.loads((PAGE / "vendor/manifest.json").read_text())
    listed = {"manifest.json"}
    for package in manifest.values():
        listed |= {package["licence"], *package["files"]}
        assert (PAGE / "vendor" / package["licence"]).stat().st_size > 500
        for name, digest in package["files"].items():
            assert hashlib.sha256((PAGE / "vendor" / name).read_bytes()).hexdigest() == digest, name
    assert listed == {each.name for each in (PAGE / "vendor").iterdir()}


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_imports_is_there(name: str) -> None:
    text = (PAGE / name).read_text("utf-8")
    for path in re.findall(r"""(?:from|import\()\s*["']\./([^"'`]+)["']""", text):
        if path != "types":
            assert (PAGE / path).exists(), path


def test_everything_the_page_needs_at_once_is_loaded_at_once() -> None:
    found = routes_page.modules_from("main.js")
    assert {"vendor/preact.js", "vendor/signals-core.js", "list.js", "strings-en.js"} <= set(found)
    later = {"vendor/uplot.js", "vendor/marked.js", "vendor/highlight.js", "dialogue.js", "composer.js"}
    assert not later & set(found)
    assert "dialogue.js" in routes_page.modules_from("conversation.js")


@pytest.mark.parametrize("language", ["en", "es", "zh"])
def test_all_that_a_page_in_one_language_can_load_is_small(language: str) -> None:
    others = {f"strings-{each}.js" for each in ("en", "es", "zh") if each != language}
    needed = [name for name in routes_page.names() if name not in others]
    assert others < set(routes_page.names())
    assert sum(len(routes_page.compressed(name) or b"") for name in needed) < 250_000


@pytest.mark.parametrize(
    ("accepted", "form"),
    [
        ("", "deflate"),
        ("gzip, deflate", "deflate"),
        ("gzip, deflate, br, zstd", "br"),
        ("deflate;q=0.5,br;q=0.8", "br"),
        ("BR", "br"),
        ("gzip, br;q=0", "deflate"),
        ("gzip, br; q=0.000", "deflate"),
        ("brotli, x-br", "deflate"),
    ],
)
def test_a_file_is_sent_in_a_form_that_the_browser_takes(accepted: str, form: str) -> None:
    assert routes_page.form_for(accepted) == form


def test_the_page_has_no_inline_script_or_style() -> None:
    text = (PAGE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert "style=" not in text
    for name in MODULES:
        module = (PAGE / name).read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|dangerouslySet", module), name
        assert not re.search(r"""<[a-z][^>`]*\sstyle=["'$]""", module), name
