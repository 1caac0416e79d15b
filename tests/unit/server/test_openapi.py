"""The OpenAPI document and the routes: every public method has one."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest

from segue.app.run_shapes import FeedKind
from segue.app.segue import Segue
from segue.client import CHANGES, TURNS
from segue.core.events import AnyEvent
from segue.server.api import endpoints
from segue.server.endpoint import Endpoint, Table
from segue.server.openapi import document, operation_id
from segue.server.problems import STATUS

V1 = tuple(each for each in endpoints() if each.path.startswith("/api/v1/"))
API = tuple(each for each in V1 if not each.local)
"""Without what the command line keeps to itself."""
INNER = {"finish", "workspace", "service"}
"""For extensions and tests; a server must not offer it."""


def public_methods() -> set[str]:
    """``Segue.log``, ``Segue.sessions.ls``: the methods of the class, and of its sections."""
    found = set()
    for name, member in vars(Segue).items():
        if name.startswith("_") or name in INNER:
            continue
        if not isinstance(member, property):
            found.add(f"Segue.{name}")
            continue
        section = vars(section_modules()[kind_of(member)])[kind_of(member)]
        found |= {
            f"Segue.{name}.{each}" for each in vars(section) if not each.startswith("_") and each not in INNER
        }
    return found


def kind_of(section: property) -> str:
    return str(inspect.signature(section.fget).return_annotation)  # type: ignore[arg-type]


def section_modules() -> dict[str, ModuleType]:
    """The modules of ``app`` with a section of ``Segue``, by the names of their classes."""
    folder = Path(inspect.getfile(Segue)).parent
    modules = [import_module(f"segue.app.{path.stem}") for path in folder.glob("segue_*.py")]
    return {name: module for module in modules for name in vars(module)}


def test_every_public_method_has_a_route() -> None:
    exposed = {call for each in endpoints() for call in each.calls}
    assert exposed == public_methods()


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(document(V1, "http://127.0.0.1:4242"))
    return decoded


def test_the_document_has_every_route(made: dict[str, Any]) -> None:
    assert made["openapi"] == "3.1.0"
    told = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    assert told == {(each.method, each.path) for each in API}
    local = [(each.method, each.path) for each in V1 if each.local]
    accounts = [("POST", "/api/v1/accounts"), ("DELETE", "/api/v1/accounts/{name}")]
    assert local == [*accounts, ("POST", TURNS), ("POST", CHANGES)]
    assert not {"ForegroundCall", "ChangeCall", "AccountBody"} & made["components"]["schemas"].keys()


def test_all_references_lead_somewhere(made: dict[str, Any]) -> None:
    named = set(re.findall(r'"#/components/(\w+/[\w.]+)"', msgspec.json.encode(made).decode()))
    known = {f"{kind}/{name}" for kind, each in made["components"].items() for name in each}
    assert len(named) > 20
    assert named <= known


def test_operations_have_names_of_their_own() -> None:
    names = [operation_id(each) for each in API]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_every_operation_tells_its_answer_and_its_problems(made: dict[str, Any]) -> None:
    for each in API:
        told = made["paths"][each.path][each.method.lower()]
        assert str(each.success) in told["responses"]
        assert {str(status) for status in STATUS.values()} <= set(told["responses"])
        assert [p["name"] for p in told["parameters"] if p["in"] == "path"] == each.parameters
        assert told["summary"]
    assert made["paths"]["/api/v1/health"]["get"]["security"] == []


def test_a_query_is_told_parameter_by_parameter(made: dict[str, Any]) -> None:
    told = made["paths"]["/api/v1/sessions/{agent}/{id}/events"]["get"]["parameters"]
    names = ["agent", "id", "anchor_to_latest", "beforeId", "afterId", "at", "size"]
    assert [each["name"] for each in told] == names


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/runs/{run}/events"])
def test_a_stream_tells_the_types_of_its_events(made: dict[str, Any], path: str) -> None:
    answer = made["paths"][path]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    told = {
        each["properties"]["event"]["const"]: each["properties"]["data"]["contentSchema"]["$ref"]
        for each in answer["oneOf"]
    }
    schemas = "#/components/schemas/"
    changed = dict.fromkeys(("run", "message", "conversation", "removed", "flow"), f"{schemas}Changed")
    assert told == {
        "hello": f"{schemas}Hello",
        "delta": f"{schemas}Delta",
        "event": f"{schemas}FeedEvent",
        **changed,
        "heartbeat": f"{schemas}Heartbeat",
    }
    assert set(changed) == set(get_args(FeedKind)) - {"event"}


def test_every_event_of_a_run_is_told(made: dict[str, Any]) -> None:
    schemas = made["components"]["schemas"]
    mapping = schemas["FeedEvent"]["properties"]["event"]["discriminator"]["mapping"]
    assert mapping == {
        kind.__struct_config__.tag: f"#/components/schemas/{kind.__name__}" for kind in get_args(AnyEvent)
    }
    assert {name.rpartition("/")[2] for name in mapping.values()} <= schemas.keys()


def test_headers_are_told(made: dict[str, Any]) -> None:
    told = {
        (method, path): each["name"]
        for path, methods in made["paths"].items()
        for method, operation in methods.items()
        for each in operation["parameters"]
        if each["in"] == "header"
    }
    assert told == {
        ("post", "/api/v1/conversations/{key}/runs"): "Idempotency-Key",
        ("post", "/api/v1/sessions/{agent}/{id}/continue"): "Idempotency-Key",
        ("get", "/api/v1/runs/{run}/events"): "Last-Event-ID",
        ("get", "/api/v1/events"): "Last-Event-ID",
    }


@pytest.mark.parametrize("each", endpoints(), ids=operation_id)
def test_bodies_refuse_unknown_fields(each: Endpoint) -> None:
    assert inspect.iscoroutinefunction(each.handler)
    if each.body is not None:
        assert each.body.__struct_config__.forbid_unknown_fields
    assert each.path.startswith("/")
    Table((each,))
