"""The provider-independent types of the loopback model: what a request asks, and how it is answered.

A wire decodes a request body into an `Ask`; the script turns the ask into an `Action`; the wire encodes that.
Everything in between is independent of the provider.
"""

from typing import Any, Literal

from msgspec import Struct

Protocol = Literal["anthropic", "responses", "gemini", "chat"]
Role = Literal["user", "assistant", "system"]


class Tool(Struct, frozen=True):
    """A tool the request declares. `kind` is `function`, `custom` (free text input) or `local_shell`."""

    name: str
    kind: str = "function"
    properties: dict[str, Any] = {}
    namespace: str = ""


class Item(Struct, frozen=True):
    """One piece of the conversation, in the order of the request."""

    kind: Literal["text", "call", "result"]
    role: Role
    text: str = ""
    call_id: str = ""


class Prompt(Struct, frozen=True):
    """What a prompt cache sees, in order. `marks`: segment index → how long the prefix up to it is cached."""

    segments: tuple[bytes, ...]
    marks: dict[int, float] = {}

    @property
    def size(self) -> int:
        return sum(map(len, self.segments))


class Ask(Struct, frozen=True, kw_only=True):
    """One decoded request."""

    protocol: Protocol
    model: str
    stream: bool
    system: str
    tools: tuple[Tool, ...]
    items: tuple[Item, ...]
    prompt: Prompt
    messages: int
    max_tokens: int | None = None
    schema: dict[str, Any] | None = None
    stream_usage: bool = True


class Usage(Struct, frozen=True):
    """Tokens of one request; the three input counters are disjoint."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    long_write: bool = False

    @property
    def all_input(self) -> int:
        return self.input + self.cache_read + self.cache_write


class Text(Struct, frozen=True):
    text: str


class Thought(Struct, frozen=True):
    text: str


class Call(Struct, frozen=True):
    """A tool call. `arguments` is an object, or the free text of a custom tool."""

    tool: Tool
    arguments: dict[str, Any] | str


Part = Text | Thought | Call


class Limit(Struct, frozen=True):
    """A usage limit that the answer tells about: its window, such as `5h`, the part that is used, from 0
    to 1, and after how many seconds it is reset."""

    window: str
    used: float
    seconds: float = 3600.0

    def resets_s(self, now_s: float) -> int:
        return round(now_s + self.seconds)


class Reply(Struct, frozen=True):
    """An answer. `seconds` are spread over the text's pieces; `ending` says how the stream ends."""

    parts: tuple[Part, ...]
    seconds: float = 0.0
    pieces: int | None = None
    ending: Literal["whole", "dropped", "malformed", "garbage"] = "whole"
    declined: bool = False
    """The provider stopped it for what it says."""
    limits: tuple[Limit, ...] = ()


class Fault(Struct, frozen=True):
    """A refusal, in each wire's own words. `streamed`: as an event in a stream that began normally."""

    status: int
    context: bool = False
    declined: bool = False
    """The provider declines for what is asked."""
    streamed: bool = False
    retry_after: float | None = None
    limits: tuple[Limit, ...] = ()


class Hang(Struct, frozen=True):
    """No answer until the client disconnects."""


Action = Reply | Fault | Hang


class Frame(Struct, frozen=True):
    """One piece of a streamed answer. A `beat` has a piece of the text; pauses are made before beats."""

    data: bytes
    beat: bool = False


class Refusal(Struct, frozen=True):
    """An HTTP error in a provider's own words."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = {}


def slices(text: str, pieces: int | None = None) -> list[str]:
    """Cut a text into the pieces that are streamed."""
    size = max(1, -(-len(text) // pieces)) if pieces else max(24, -(-len(text) // 64))
    return [text[at : at + size] for at in range(0, len(text), size)]
