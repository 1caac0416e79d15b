"""The directive language: each verb, its arguments, and what a badly written one becomes."""

import pytest

from segue.rehearsal import directives as d

CASES = [
    ("[[say hello world]]", (d.Say("hello world"),)),
    ("please [[think hm]] and [[say x]] thanks", (d.Think("hm"), d.Say("x"))),
    ('[[tool Bash {"command":"ls"}]]', (d.UseTool("Bash", {"command": "ls"}),)),
    ('[[tool T {"a":[[1,2]]}]]', (d.UseTool("T", {"a": [[1, 2]]}),)),
    ("[[tool apply_patch *** Begin]]", (d.UseTool("apply_patch", "*** Begin"),)),
    ("[[tool T]]", (d.UseTool("T", {}),)),
    ("[[shell [ -f x ] && echo y]]", (d.Shell("[ -f x ] && echo y"),)),
    ("[[read a.txt]]", (d.Read("a.txt"),)),
    ("[[write a.txt two words]]", (d.Write("a.txt", "two words"),)),
    ("[[ask Which? | Red | Blue]]", (d.AskUser("Which?", ("Red", "Blue")),)),
    ("[[ask Sure?]]", (d.AskUser("Sure?", ("Yes", "No")),)),
    ("[[result]]", (d.Result(),)),
    (r"[[recall secret-\d+]]", (d.Recall(r"secret-\d+"),)),
    ("[[slow 2.5]]", (d.Slow(2.5, 10),)),
    ("[[slow 1 4]]", (d.Slow(1.0, 4),)),
    ("[[empty]]", (d.Empty(),)),
    ("[[context-full]]", (d.ContextFull(False),)),
    ("[[context-full stream]]", (d.ContextFull(True),)),
    ("[[error 500]]", (d.Error(500),)),
    ("[[error 429 retry-after 1.5 times 2]]", (d.Error(429, 1.5, 2),)),
    ("[[error 503 times 1]]", (d.Error(503, None, 1),)),
    ("[[drop]] [[hang]]", (d.Broken("dropped"), d.Broken("hang"))),
    ("[[malformed]] [[malformed start]]", (d.Broken("malformed"), d.Broken("garbage"))),
    ("[[dance]]", (d.Say("Unknown directive: dance"),)),
    ("[[error soon]]", (d.Say("Bad directive: error soon"),)),
    ("[[tool T {broken]]", (d.Say("Bad directive: tool T {broken"),)),
    ("[[recall (]]", (d.Say("Bad directive: recall ("),)),
    ("nothing [here] at all", ()),
    ("if [[ -f x ]]; then", ()),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_parse(text: str, expected: tuple[d.Directive, ...]) -> None:
    assert d.parse(text) == expected


def test_a_huge_answer_has_the_size_asked_for_and_does_not_repeat_itself() -> None:
    (said,) = d.parse("[[huge 5000]]")
    assert isinstance(said, d.Say)
    assert len(said.text) == 5000
    lines = said.text.splitlines()
    assert len(set(lines)) == len(lines)
