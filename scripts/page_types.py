"""Writes ``server/page/types.d.ts``: the types of the API for the page, from the OpenAPI document.

Run it after a type of the API has changed. A test compares the file with what this would write.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from segue.server.api import endpoints
from segue.server.openapi import document

TARGET = Path(__file__).parents[1] / "src/segue/server/page/types.d.ts"
REF = "#/components/schemas/"
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
HEAD = "// The types of the API. Written by scripts/page_types.py from the OpenAPI document; do not edit.\n"


def text() -> str:
    listed = tuple(each for each in endpoints() if each.path.startswith("/api/v1/"))
    schemas = json.loads(document(listed, "http://127.0.0.1"))["components"]["schemas"]
    return HEAD + "".join(_declared(name, schemas[name]) for name in sorted(schemas))


def _declared(name: str, schema: dict[str, Any]) -> str:
    if schema.get("type") != "object" or "properties" not in schema:
        return f"\nexport type {name} = {_type(schema)};\n"
    return f"\nexport interface {name} {_object(schema, '')}\n"


def _object(schema: dict[str, Any], indent: str) -> str:
    required = set(schema.get("required", ()))
    inner = f"{indent}  "
    lines = [
        f"{inner}{_named(name)}{'' if _is_sent(name, value, required) else '?'}: {_type(value, inner)};"
        for name, value in schema["properties"].items()
    ]
    return "\n".join(["{", *lines, f"{indent}}}"])


def _is_sent(name: str, schema: dict[str, Any], required: set[str]) -> bool:
    """The daemon sends fields that have a default, too; in what it takes, they can be left out."""
    return name in required or "default" in schema


def _named(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _type(schema: dict[str, Any], indent: str = "") -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REF)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(dict.fromkeys(_type(each, indent) for each in schema[several]))
    match schema.get("type"):
        case "array":
            return _array(schema, indent)
        case "object" if "properties" in schema:
            return _object(schema, indent)
        case "object":
            values = schema.get("additionalProperties", True)
            return f"Record<string, {_type(values, indent) if isinstance(values, dict) else 'any'}>"
        case str(kind):
            return SIMPLE[kind]
    return "any"


def _array(schema: dict[str, Any], indent: str) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_type(each, indent) for each in schema['prefixItems'])}]"
    items = schema.get("items")
    inside = _type(items, indent) if isinstance(items, dict) else "any"
    return f"({inside})[]" if " | " in inside else f"{inside}[]"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
    sys.exit(0)
