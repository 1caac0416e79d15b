"""The page's texts: three tables with the same names and places, each name used and found, no text outside.

It reads the modules as text; no browser.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from segue.agents.repair_words import DONE
from segue.app import shapes
from segue.app.conversation_shapes import ChainTurn
from segue.app.settings import SettingsShown
from segue.core.budget import Scope
from segue.core.flow import FlowState, Needs, StepKind, StepState
from segue.core.ladder import decide
from segue.core.outcome import Kind
from segue.core.question import OpenQuestion
from segue.core.request import Unit
from segue.core.turn import Check, Mode, RungShown, State
from tests.unit.core.situations import BREAKS, broken

PAGE = Path(__file__).parents[2] / "src/segue/server/page"
LANGUAGES = ("en", "es", "zh")
PLACE = re.compile(r"\{(\w+)\}")
LETTERS = re.compile(r"[^\W\d_]{2,}")
WORDS = re.compile(r"[A-Za-z]{2,}[,.]? [A-Za-z]{2,}")
SOURCES = PAGE.parents[1]
PLACES = {"scope": get_args(Scope), "unit": get_args(Unit), "what": tuple(DONE)}
"""What stands in the codes of reasons that are put together."""
PRODUCT = {f"mode.{mode}" for mode in get_args(Mode)}
"""The product's own words. They are the same in all languages, because they are also typed and configured."""


@pytest.fixture(scope="session", autouse=True)
def alone() -> None:
    """Nothing is started here."""


def _values(struct: type[Any], field: str) -> set[str]:
    """The words that a field of a type can have."""
    hint = msgspec.inspect.type_info(struct)
    assert isinstance(hint, msgspec.inspect.StructType)
    (found,) = (each.type for each in hint.fields if each.name == field)
    parts = found.types if isinstance(found, msgspec.inspect.UnionType) else (found,)
    return {
        str(word) for part in parts if isinstance(part, msgspec.inspect.LiteralType) for word in part.values
    }


def _settings() -> set[str]:
    """The keys of the settings, as ``group.key``."""
    found = set()
    for group in msgspec.structs.fields(SettingsShown):
        if isinstance(group.type, type) and issubclass(group.type, msgspec.Struct):
            found |= {f"{group.name}.{each.name}" for each in msgspec.structs.fields(group.type)}
    return found


STATES = set(get_args(State)) | _values(shapes.ConversationShown, "state")
DYNAMIC: dict[str, set[str]] = {
    "mode.*": set(get_args(Mode)),
    "rung.*": set(get_args(Mode)) | _values(RungShown, "state"),
    "state.*": STATES,
    "failure.*": set(get_args(Kind)),
    "verdict.*": _values(Check, "verdict"),
    "filter.*": {"all", "needs_you", "running", "parked", "starred"},
    "undo.*": _values(shapes.Undone, "kind"),
    "theme.*": {"system", "light", "dark"},
    "setup.theme.*": {"system", "light", "dark"},
    "setup.is.*": _values(shapes.SetupFinding, "level"),
    "setup.level.*.one": {"bad", "warn", "ok"},
    "setup.level.*.many": {"bad", "warn", "ok"},
    "setup.notify.*": {"granted", "denied", "missing"},
    "plan.*": {*get_args(Mode), "first", "catchup", "catchup.one", "replay.one"},
    "flow.of.*": {"review", "escalate", "trial"},
    "flow.state.*": {*get_args(FlowState), "interrupted", "pausing", "cancelling"},
    "flow.end.*": {"approved", "capped", "stalemate", "done", "failed", "cancelled"},
    "flow.kind.*": set(get_args(StepKind)),
    "flow.step.*": set(get_args(StepState)),
    "flow.needs.*": set(get_args(Needs)),
    "flow.finding.*": {"open", "resolved", "outside"},
    "chain.*": _values(ChainTurn, "kind"),
    "lineage.begun.*": set(get_args(Mode)) - {"fresh"},
    "why.*": set(),
    "set.*": {"files", "programs", *(each.partition(".")[0] for each in _settings())},
    "set.*.*": _settings(),
}
"""What the names that are put together can be, by their fixed part. Where they can, types say it."""
BY_VARIABLE = {
    "frame.js": {"conversations", "sessions", "flows", "usage", "setup"},
    "palette.js": {"conversations", "sessions", "flows", "usage", "setup"},
}
"""Names that stand in a variable: ``t(name)``."""
ALLOWED = {
    "segue",  # the logo
    "Segue",
    "config.toml",
}
"""Visible texts that are the same in all languages."""
SENTENCE = re.compile(
    r"\b(the|is|are|not|does|cannot|was|were|this|that|your|you|please|no|has|have|of)\b", re.IGNORECASE
)
"""Words that tell a sentence from a list of names or classes."""
COMMAND = "segue "


def table(language: str) -> dict[str, str]:
    text = (PAGE / f"strings-{language}.js").read_text()
    lines = re.findall(r'^  ("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*"),$', text, re.MULTILINE)
    names = [json.loads(name) for name, _ in lines]
    assert len(names) == len(set(names)), "a name stands twice"
    entries = [each for each in text.splitlines() if each.startswith("  ") and not each.startswith("  //")]
    assert len(entries) == len(names), "an entry is not on a line of its own"
    return {json.loads(name): json.loads(value) for name, value in lines}


def modules() -> dict[str, str]:
    return {
        each.name: each.read_text()
        for each in sorted(PAGE.glob("*.js"))
        if not each.name.startswith("strings-")
    }


class Token(NamedTuple):
    kind: str
    """``code``, ``string`` or ``template``"""
    text: str
    """Of a template: its fixed parts, with a NUL for each value."""
    tag: str
    """What stands before a template, such as ``html``."""
    line: int


REGEX_AFTER = re.compile(r"(?:^|[=(,:;!&|?{}\[+\n]|\breturn)\s*$")


class Reader:
    """Just enough of JavaScript to tell code, strings and templates apart."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.tokens = text, 0, list[Token]()
        self.code(end="")

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def code(self, end: str) -> None:
        """Read up to the brace that closes this."""
        text, begin, depth = self.text, self.at, 0
        while self.at < len(text):
            here = text[self.at]
            if text.startswith("//", self.at):
                self.flush(begin)
                self.at = (text + "\n").index("\n", self.at)
                begin = self.at
            elif text.startswith("/*", self.at):
                self.flush(begin)
                self.at = text.index("*/", self.at) + 2
                begin = self.at
            elif here in "\"'":
                self.flush(begin)
                self.string(here)
                begin = self.at
            elif here == "`":
                tag = re.search(r"(\w*)$", text[begin : self.at])
                self.flush(begin)
                self.template(tag[1] if tag else "")
                begin = self.at
            elif here == "/" and REGEX_AFTER.search(text[max(0, self.at - 40) : self.at]):
                self.flush(begin)
                self.regex()
                begin = self.at
            elif here == "}" and depth == 0 and end:
                self.flush(begin)
                return
            else:
                depth += (here == "{") - (here == "}")
                self.at += 1
        self.flush(begin)

    def flush(self, begin: int) -> None:
        if begin < self.at:
            self.tokens.append(Token("code", self.text[begin : self.at], "", self.line()))

    def string(self, quote: str) -> None:
        begin, line = self.at, self.line()
        self.at += 1
        while self.text[self.at] != quote:
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at += 1
        self.tokens.append(Token("string", self.text[begin + 1 : self.at - 1], "", line))

    def regex(self) -> None:
        self.at += 1
        inside = False
        while inside or self.text[self.at] != "/":
            inside = self.text[self.at] == "[" or (inside and self.text[self.at] != "]")
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at += 1

    def template(self, tag: str) -> None:
        line, fixed = self.line(), ""
        place = len(self.tokens)
        self.tokens.append(Token("template", "", tag, line))
        self.at += 1
        while self.text[self.at] != "`":
            if self.text.startswith("${", self.at):
                self.at += 2
                self.tokens.append(Token("code", "${", "", self.line()))
                self.code(end="}")
                self.tokens.append(Token("code", "}", "", self.line()))
                self.at += 1
                fixed += "\0"
            else:
                step = 2 if self.text[self.at] == "\\" else 1
                fixed += self.text[self.at : self.at + step]
                self.at += step
        self.at += 1
        self.tokens[place] = Token("template", fixed, tag, line)
        self.tokens.append(Token("code", "", "end", self.line()))


def tokens(text: str) -> list[Token]:
    return Reader(text).tokens


def asked(text: str) -> Iterator[tuple[str, str]]:
    """The arguments of ``t(…)``, ``plural(…)`` and ``named(…)``: the function, and a name (or with ``*``)."""
    found = tokens(text)
    for at, token in enumerate(found):
        called = (
            re.search(r"(?<![\w.])(t|plural|named)\($", token.text.rstrip()) if token.kind == "code" else None
        )
        inner = (
            None
            if called
            else re.search(r"(?<![\w.])(t|plural|named)\(([^()\"'`]+)$", token.text)
            if token.kind == "code"
            else None
        )
        match = called or inner
        if match is None:
            continue
        if inner and not re.search(r"[?:]|===?\s*$", inner[2]):
            continue
        yield from ((match[1], name) for name in _names(found[at:], inner[2] if inner else ""))


def _names(found: list[Token], before: str) -> Iterator[str]:
    """The names in one argument: all branches of a condition, but not what the condition compares with."""
    depth, skip, compared = 0, 0, bool(re.search(r"[=!]==?\s*$", before))
    for token in found[1:]:
        if skip:
            skip += (token.tag != "end" and token.kind == "template") - (token.tag == "end")
            continue
        if token.kind == "string":
            if not compared:
                yield token.text
        elif token.kind == "template":
            yield re.sub("\0", "*", token.text)
            skip = 1
        elif token.tag != "end":
            for sign in token.text:
                depth += (sign in "([{") - (sign in ")]}")
                if depth < 0 or (depth == 0 and sign == ","):
                    return
        compared = token.kind == "code" and bool(re.search(r"[=!]==?\s*$", token.text))


def used() -> dict[str, set[str]]:
    """All names that the modules ask for, with the modules."""
    found: dict[str, set[str]] = {}
    for module, text in modules().items():
        names = list(asked(text))
        for function, name in names:
            for each in (f"{name}.one", f"{name}.many") if function == "plural" else (name,):
                if not each.startswith("*"):  # the definition of ``plural``
                    found.setdefault(each, set()).add(module)
        for name in BY_VARIABLE.get(module, ()):
            found.setdefault(name, set()).add(module)
    return found


def _expanded(pattern: str) -> Iterator[str]:
    """The names that a pattern stands for."""
    for value in DYNAMIC.get(pattern, ()):
        name = pattern
        for part in value.split(".") if pattern.count("*") > 1 else (value,):
            name = name.replace("*", part, 1)
        yield name


def _fits(pattern: str) -> re.Pattern[str]:
    return re.compile(
        "".join(r"[\w-]+" if part == "*" else re.escape(part) for part in re.split(r"(\*)", pattern))
    )


def common(language: str) -> dict[str, str]:
    """Without the reasons, which the daemon says in English."""
    return {name: text for name, text in table(language).items() if not name.startswith("why.")}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_the_tables_have_the_same_names_in_the_same_order(language: str) -> None:
    assert list(common(language)) == list(table("en"))


def _codes(tree: ast.Module) -> Iterator[tuple[str, set[str] | None]]:
    """The codes in calls of ``say``; one that is put together stands for what its type can be. And the names
    of their values; None: they are not written there."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "say" and len(node.args) > 1):
            continue
        code = ast.unparse(node.args[1]).replace("budget.scope", "scope")
        values = {each.arg for each in node.keywords if each.arg is not None}
        written = values if len(values) == len(node.keywords) else None
        places = PLACE.findall(code) if isinstance(node.args[1], ast.JoinedStr) else []
        found = [code[2:-1].replace(f"{{{place}}}", each) for place in places for each in PLACES[place]]
        found = found or re.findall(r"'([a-z_]+\.[a-z_]+)'", code)
        assert found, f"the code must stand in the call: {ast.unparse(node)}"
        yield from ((each, written) for each in found)


def said() -> list[tuple[str, set[str] | None]]:
    """The codes of all reasons and notices with their values, as the sources have them."""
    return [each for file in sorted(SOURCES.rglob("*.py")) for each in _codes(ast.parse(file.read_text()))]


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_reason_of_a_check_is_translated(language: str) -> None:
    known = {name.removeprefix("why.") for name in table(language) if name.startswith("why.")}
    assert known - {"then", "default"} == {code for code, _ in said()}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_translation_names_what_is_said_in_english(language: str) -> None:
    """Only values that the call of ``say`` gives."""
    texts = table(language)
    wrong = [
        f"{code}: {sorted(values)}"
        for code, values in said()
        if values is not None and not set(PLACE.findall(texts[f"why.{code}"])) <= values
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES[1:])
@pytest.mark.parametrize("wrong", [(), *((each,) for each in BREAKS)], ids=str)
def test_a_reason_has_what_its_translation_names(language: str, wrong: tuple[str, ...]) -> None:
    decided, texts = decide(broken(*wrong)), table(language)
    said = [each.clauses for each in decided.checks if each.detail]
    said += [each.clauses for each in decided.rungs if each.why]
    assert all(said)
    for clause in (clause for clauses in said for clause in clauses):
        named = set(PLACE.findall(texts[f"why.{clause.code}"]))
        assert named <= clause.values.keys() | {"said"}, clause


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_the_tables_have_the_same_places(language: str) -> None:
    english = table("en")
    wrong = [
        name
        for name, text in common(language).items()
        if sorted(set(PLACE.findall(text))) != sorted(set(PLACE.findall(english[name])))
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_the_product_speaks_of_modes_in_its_own_words(language: str) -> None:
    english, other = table("en"), table(language)
    assert {name: other[name] for name in PRODUCT} == {name: english[name] for name in PRODUCT}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_texts_are_translated(language: str) -> None:
    """Sentences that are the same as in English were forgotten."""
    english = table("en")
    same = [
        name
        for name, text in common(language).items()
        if text == english[name] and WORDS.search(PLACE.sub("", text))
    ]
    assert same == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_empty_or_has_markup(language: str) -> None:
    assert [name for name, text in table(language).items() if not text.strip() or "<" in text] == []


def test_every_name_that_is_asked_for_exists() -> None:
    english = table("en")
    missing = [
        f"{name} ({', '.join(sorted(where))})"
        for name, where in used().items()
        if "*" not in name and name not in english and not name.startswith("why.")
    ]
    assert missing == []


def test_every_name_that_is_put_together_exists() -> None:
    english, missing = table("en"), []
    for pattern in used():
        if "*" not in pattern:
            continue
        if pattern not in DYNAMIC:
            # A list of the modules says what it can be; at least one name must be there.
            if not any(_fits(pattern).fullmatch(name) for name in english):
                missing.append(pattern)
            continue
        missing += [name for name in _expanded(pattern) if name not in english]
    assert missing == []


def test_what_is_known_about_names_is_still_true() -> None:
    """An entry of the list above that no module asks for any more."""
    assert [pattern for pattern in DYNAMIC if pattern not in used()] == []


def test_no_name_is_unused() -> None:
    names = used()
    names |= {name: set() for pattern in DYNAMIC for name in _expanded(pattern)}
    patterns = [_fits(each) for each in names if "*" in each]
    unused = [
        name
        for name in table("en")
        if name not in names and not any(each.fullmatch(name) for each in patterns)
    ]
    # A name may be handed on in a variable, such as ``name="setup.declare"``.
    text = "\n".join(modules().values())
    assert [name for name in unused if f'"{name}"' not in text] == []


def test_names_of_keys_and_groups_exist() -> None:
    """``key.${name}`` and ``palette.${group}`` take their names from lists in the modules."""
    english = table("en")
    keys = re.findall(r'\["[^"]+", "(\w+)"\]', modules()["help.js"])
    assert keys
    assert [name for name in keys if f"key.{name}" not in english] == []
    groups = set(re.findall(r'group: "(\w+)"', modules()["palette.js"]))
    assert groups
    assert [name for name in groups if f"palette.{name}" not in english] == []


def test_every_kind_of_question_has_a_title() -> None:
    english = table("en")
    for kind in _values(OpenQuestion, "kind"):
        assert f"{'ask' if kind == 'question' else kind}.title" in english


TAG = re.compile(
    r"<!--.*?-->|<(?P<close>/?)(?P<name>[\w\0-]*)(?P<rest>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>", re.DOTALL
)
SPOKEN = re.compile(r"\b(?:title|aria-label|placeholder|alt|label)=(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>\0]+))")
CODE = ("kbd", "code", "pre")
"""What stands in these is typed, not read: keys and commands."""


def visible(markup: str) -> Iterator[str]:
    """The texts of a template that people see or hear."""
    at, open_ = 0, list[str]()
    for tag in TAG.finditer(markup):
        if not any(name in CODE for name in open_):
            yield markup[at : tag.start()]
        at = tag.end()
        name, rest = tag["name"] or "", tag["rest"] or ""
        for spoken in SPOKEN.findall(rest):
            yield "".join(spoken)
        if tag["close"]:
            if name in open_:
                del open_[len(open_) - 1 - open_[::-1].index(name) :]
        elif not rest.rstrip().endswith("/") and name and name != "\0":
            open_.append(name)
    yield markup[at:]


def test_the_reader_finds_texts() -> None:
    """That the next test would find something."""
    source = (
        'html`<p title="Hello you">${t("a")} Some words <kbd>Esc</kbd> ${y ? html`<b>more</b>` : ""}</p>`;'
    )
    templates = [token.text for token in tokens(source) if token.kind == "template" and token.tag == "html"]
    texts = [text.strip() for each in templates for text in visible(each) if LETTERS.search(text)]
    assert texts == ["Hello you", "\0 Some words", "more"]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('t("a")', ["a"]),
        ('t(b ? "c" : "d", { e: t("f") })', ["c", "d", "f"]),
        ("t(`g.${h}`)", ["g.*"]),
        ('t(i === "j" ? "k" : `l.${m.n ? "o" : "p"}`)', ["k", "l.*"]),
        ('plural("q", 2)', ["q"]),
        ('// t("no")\nfit("no"); x.t("no")', []),
    ],
)
def test_the_reader_finds_names(code: str, names: list[str]) -> None:
    assert [name for _, name in asked(code)] == names


def test_no_text_stands_outside_the_tables() -> None:
    found = []
    for module, text in modules().items():
        for token in tokens(text):
            if token.kind == "template" and token.tag == "html":
                for said in visible(token.text):
                    plain = said.replace("\0", " ").strip()
                    if LETTERS.search(plain) and plain not in ALLOWED:
                        found.append(f"{module}:{token.line}: {plain}")
    assert found == []


def test_no_sentence_stands_in_the_code() -> None:
    """Texts that are told or asked from code come from the tables, too."""
    found = []
    for module, text in modules().items():
        for token in tokens(text):
            said = token.text if token.kind == "string" else ""
            if WORDS.search(said) and SENTENCE.search(said) and not said.startswith(COMMAND):
                found.append(f"{module}:{token.line}: {token.text}")
    assert found == []
