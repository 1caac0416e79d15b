"""The OpenAPI 3.1 document, made from the endpoints and their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from segue import __version__
from segue.app.run_shapes import FeedEvent
from segue.core.events import AnyEvent
from segue.server import problems
from segue.server.endpoint import Endpoint, Header

REF = "#/components/schemas/{name}"
BY_STATUS: dict[int, list[str]] = {}
for _kind, _status in problems.STATUS.items():
    BY_STATUS.setdefault(_status, []).append(_kind)
INFO = {
    "title": "Segue",
    "version": __version__,
    "description": (
        "Conversations with coding agents on this machine. Keys and ids in a path are percent-encoded: the"
        " key `a/b` is `a%2Fb`. Errors are `application/problem+json`; decide by `kind`."
    ),
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}


@cache
def document(endpoints: tuple[Endpoint, ...], url: str) -> bytes:
    """The document as JSON. What only the command line uses is left out."""
    endpoints = tuple(each for each in endpoints if not each.local)
    types = _types(endpoints)
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    components[FeedEvent.__name__]["properties"]["event"] = schema_of[repr(AnyEvent)]  # it is sent undecoded
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schema_of)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": INFO,
            "servers": [{"url": url}],
            "security": [{"token": []}, {"cookie": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "responses": {str(status): _problem(status) for status in BY_STATUS},
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer"},
                    "cookie": {"type": "apiKey", "in": "cookie", "name": f"segue_{url.rpartition(':')[2]}"},
                },
            },
        }
    )


def _types(endpoints: Iterable[Endpoint]) -> list[Any]:
    """Every type of a body, an answer or a sent event, once."""
    found: dict[str, Any] = {repr(each): each for each in (problems.Problem, FeedEvent, AnyEvent)}
    for endpoint in endpoints:
        for kind in (endpoint.returns, endpoint.body, *(kind for _, kind in endpoint.stream)):
            if kind is not None:
                found[repr(kind)] = kind
    return list(found.values())


def _operation(endpoint: Endpoint, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": operation_id(endpoint),
        "tags": [_tag(endpoint)],
        "parameters": [
            *map(_path_parameter, endpoint.parameters),
            *_query_parameters(endpoint),
            *map(_header_parameter, endpoint.headers),
        ],
        "responses": _responses(endpoint, schema_of),
    }
    if endpoint.calls:
        made["description"] = "In the library: " + ", ".join(f"`{call}`" for call in endpoint.calls)
    if endpoint.open:
        made["security"] = []
    if endpoint.body is not None:
        fields = msgspec.structs.fields(endpoint.body)
        made["requestBody"] = {
            "required": any(field.required for field in fields),
            "content": {"application/json": {"schema": schema_of[repr(endpoint.body)]}},
        }
    return made


def _responses(endpoint: Endpoint, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.returns is not None:
        schema = schema_of[repr(endpoint.returns)] if not endpoint.stream else _sent(endpoint, schema_of)
        answer["content"] = {media: {"schema": schema} for media in endpoint.media.split(", ")}
    refused = {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(BY_STATUS)}
    return {str(endpoint.success): answer, **refused}


def _sent(endpoint: Endpoint, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    """One event of a stream: its name, its id if it has one, and its data, which is JSON on one line."""
    return {
        "description": "One event of the stream",
        "oneOf": [
            {
                "title": name,
                "type": "object",
                "properties": {
                    "event": {"const": name},
                    "id": {"type": "string"},
                    "data": {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": schema_of[repr(kind)],
                    },
                },
                "required": ["event", "data"],
            }
            for name, kind in endpoint.stream
        ],
    }


def _problem(status: int) -> dict[str, Any]:
    kinds = BY_STATUS[status]
    titles = "; ".join(problems.TITLES[kind] for kind in problems.KINDS if kind in kinds)
    schema = REF.format(name=problems.Problem.__name__)
    return {
        "description": f"{titles} (`{'`, `'.join(kinds)}`)",
        "content": {problems.MEDIA: {"schema": {"$ref": schema}}},
    }


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _header_parameter(header: Header) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if header.max_length is not None:
        schema["maxLength"] = header.max_length
    return {
        "name": header.name,
        "in": "header",
        "required": False,
        "description": header.description,
        "schema": schema,
    }


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    _, components = msgspec.json.schema_components([endpoint.query])
    schema = components[endpoint.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _in_query(each)}
        for name, each in schema["properties"].items()
    ]


def _in_query(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is left out is null; the query itself has no way to say it."""
    kinds = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    others = {name: value for name, value in schema.items() if name != "anyOf"}
    if "default" in others and others["default"] is None:
        del others["default"]
    return {**others, **kinds[0]} if len(kinds) == 1 else schema


def operation_id(endpoint: Endpoint) -> str:
    """A name that generated clients can use: ``get_conversations_key_log``."""
    words = endpoint.path.removeprefix("/api/").removeprefix("v1/").replace("-", "_")
    parts = [part.strip("{}").replace(".", "_") for part in words.split("/") if part]
    return "_".join((endpoint.method.lower(), *parts))


def _tag(endpoint: Endpoint) -> str:
    parts = endpoint.path.removeprefix("/api/v1/").strip("/").split("/")
    return parts[0] if endpoint.path.startswith("/api/v1/") else "daemon"
