"""Words that nobody said: prose, code and tool calls for a made-up past, the same for the same seed."""

from __future__ import annotations

import random
from itertools import accumulate

VOCABULARY = 40_000
POOL = 4_000_000
"""So many characters each of prose and of code are made at first; texts are cut out of them."""
_COMMON = (
    "the to a of and in is for that it we this be on with not as are file test can will from by if at so "
    "function class return error value code line when which should was now add use all but there one also "
    "path name run data fix type server client request token session config import list user check default"
).split()
_START = "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sh sl st t th tr v w z".split()
_MIDDLE = "a e i o u ai ea ou io".split()
_END = "n r s t l m ck nd st ng x".split()
_LINES = (
    "    def {0}_{1}(self, {2}: {3}, limit: int = {n}) -> {4}:",
    "        return self.{0}.{1}({2}, {n})",
    "        if {0} is None or {1} > {n}:",
    '            raise ValueError(f"{0} {1} {{{2}!r}}")',
    "    {0} = {1}.{2}({n}, {3}={4})",
    "from {0}.{1} import {2}, {3}",
    "{n}: {0} {1} {2} = {3}({4})",
    "src/{0}/{1}.py:{n}: error: {2} {3} {4}",
    "2026-10-{d:02} 12:{d:02}:07,{n} INFO {0}.{1} {2} took {n} ms",
    "const {0}{1} = await {2}.{3}({{ {4}: {n} }});",
    "PASSED tests/{0}/test_{1}.py::test_{2}_{3}",
    "commit {h}",
    "",
)


class Language:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        made = {self._word() for _ in range(VOCABULARY)}
        self._words = [*_COMMON, *sorted(made)]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(len(self._words))))
        self._prose = self._make_prose()
        self._code = self._make_code()

    def name(self) -> str:
        return self._word()

    def sentence(self, words: int) -> str:
        return " ".join(self._draw(words)).capitalize()

    def prose(self, length: int) -> str:
        return f"{self._cut(self._prose, length)} {self.rng.getrandbits(40):x}"

    def code(self, length: int) -> str:
        return self._cut(self._code, length)

    def tool(self, cwd: str) -> tuple[str, dict[str, object], str, object]:
        """A call as a coding agent makes it: name, input, output, and what the CLI keeps beside that."""
        length = min(int(self.rng.lognormvariate(6.9, 1.2)), 200_000)
        first, second = self._draw(2)
        path = f"{cwd}/src/{first}/{second}.py"
        output = self.code(length)
        match self.rng.randrange(4):
            case 0:
                kept: object = {"type": "text", "file": {"filePath": path, "content": output, "numLines": 40}}
                return "Read", {"file_path": path}, output, kept
            case 1:
                old, new = self.code(200), self.code(300)
                given: dict[str, object] = {"file_path": path, "old_string": old, "new_string": new}
                done = f"The file {path} has been updated."
                return "Edit", given, done, {"filePath": path, "oldString": old, "newString": new}
            case 2:
                return (
                    "Grep",
                    {"pattern": f"{first}.*{second}"},
                    output,
                    {"mode": "content", "content": output},
                )
        given = {"command": f"pytest -q tests/{first} -k {second}", "description": self.sentence(4)}
        return "Bash", given, output, {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}

    def _word(self) -> str:
        rng = self.rng
        parts = [rng.choice(_START) + rng.choice(_MIDDLE) for _ in range(rng.choice((1, 2, 2, 3)))]
        return "".join(parts) + rng.choice(_END)

    def _draw(self, count: int) -> list[str]:
        return self.rng.choices(self._words, cum_weights=self._weights, k=count)

    def _make_prose(self) -> str:
        parts: list[str] = []
        length = 0
        while length < POOL:
            sentence = self.sentence(self.rng.randrange(4, 24)) + self.rng.choice((". ", ". ", "? ", ".\n\n"))
            parts.append(sentence)
            length += len(sentence)
        return "".join(parts)

    def _make_code(self) -> str:
        lines: list[str] = []
        length = 0
        while length < POOL:
            given = {
                "n": self.rng.randrange(10_000),
                "d": self.rng.randrange(28),
                "h": f"{self.rng.getrandbits(160):040x}",
            }
            line = self.rng.choice(_LINES).format(*self._draw(5), **given)
            lines.append(line)
            length += len(line) + 1
        return "\n".join(lines)

    def _cut(self, pool: str, length: int) -> str:
        start = self.rng.randrange(len(pool) - length)
        return pool[start : start + length]
