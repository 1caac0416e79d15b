"""Small builders for neutral requests."""

from segue.rehearsal.types import Ask, Item, Prompt, Tool


def user(text: str) -> Item:
    return Item("text", "user", text)


def assistant(text: str) -> Item:
    return Item("text", "assistant", text)


def system(text: str) -> Item:
    return Item("text", "system", text)


def call(call_id: str) -> Item:
    return Item("call", "assistant", "{}", call_id)


def result(call_id: str, text: str = "ok") -> Item:
    return Item("result", "user", text, call_id)


def ask(*items: Item, tools: tuple[Tool, ...] = (), **fields: object) -> Ask:
    given: dict[str, object] = {
        "protocol": "anthropic",
        "model": "m",
        "stream": True,
        "system": "",
        "prompt": Prompt(()),
        "messages": len(items),
    }
    return Ask(tools=tools, items=items, **(given | fields))  # type: ignore[arg-type]
