"""``@flow``, and how the code of a flow is found again.

A flow that comes with Segue is found by its name. Of any other, the file and the function are recorded. It is
loaded from that file only by a command that the user gives in that directory: see ``load``.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from segue.core.errors import Misuse, NotFound

BUILT_IN: dict[str, tuple[str, ...]] = {
    "escalate": ("segue.flows.escalation:escalate",),
    "review": ("segue.flows.review.loop:review",),
    "trial": ("segue.flows.trial:trial",),
}
"""The flows that come with Segue: each name with its functions as ``module:function``, the newest first. An
older version stays for one release, so that flows that began with it can end."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")

FlowFunction = Callable[..., Awaitable[Any]]


class FlowSource(msgspec.Struct, frozen=True):
    """Where the code of a flow is."""

    file: str
    function: str
    module: str


class FlowDefinition:
    """A function that can be run as a flow."""

    def __init__(self, function: FlowFunction, version: int, name: str) -> None:
        self.function, self.version, self.name = function, version, name

    @property
    def built_in(self) -> bool:
        return self.name in BUILT_IN and self.function.__module__.startswith("segue.")

    @property
    def source(self) -> FlowSource | None:
        """Where its code is; None: it comes with Segue."""
        if self.built_in:
            return None
        file = inspect.getsourcefile(self.function)
        where = os.path.abspath(file) if file is not None and os.path.exists(file) else ""
        return FlowSource(where, self.function.__qualname__, self.function.__module__)

    def check(self, values: Mapping[str, object]) -> None:
        """Raise ``Misuse`` if the function cannot be called with these values."""
        try:
            inspect.signature(self.function).bind(None, **values)
        except TypeError as error:
            raise Misuse(f"the flow {self.name} cannot be started with this: {error}") from None


def flow(*, version: int, name: str | None = None) -> Callable[[FlowFunction], FlowDefinition]:
    """Make an async function a flow. Its first parameter is the ``Flow``; the others get what it is started
    with, as JSON values.

    ``version``: raise it when the order or the meaning of the steps changes. Flows that began with another
    version are not continued by guesswork.
    """
    if not isinstance(version, int) or version < 1:
        raise Misuse("the version of a flow is a number from 1 on: @flow(version=1)")

    def define(function: FlowFunction) -> FlowDefinition:
        named = name or function.__name__
        if not _NAME.fullmatch(named):
            raise Misuse(f"{named!r:.60} is not the name of a flow (letters, digits and . _ -)")
        if not inspect.iscoroutinefunction(function):
            raise Misuse(f"the flow {named} must be an async function")
        return FlowDefinition(function, version, named)

    return define


def built_in(name: str, version: int | None = None, *, of: str = "FLOW") -> FlowDefinition:
    """A flow that comes with Segue; without a version, the newest one. Raises ``NotFound``. ``of``: the flow
    that began with that version, for the message."""
    found = [_attribute(import_module(module), function) for module, function in map(_parts, _places(name))]
    for each in found:
        if version is None or each.version == version:
            return each
    raise NotFound(f"this Segue has no version {version} of the flow {name}; {_from_step(of)}")


def load(source: FlowSource, version: int | None, here: Path, *, of: str = "FLOW") -> FlowDefinition:
    """The flow in a file of the user's. The file is executed: it must be in the directory ``here`` or below
    it, where the user is, and belong to the user. Raises ``NotFound`` if it has no flow of that version."""
    file = Path(source.file)
    if not source.file or not file.is_file():
        where = source.file or source.module
        raise NotFound(f"the code of this flow is gone ({where}); run the program that started it again")
    if not file.resolve().is_relative_to(here.resolve()):
        raise Misuse(f"the code of this flow is {file}; to run it, give this command in {file.parent}")
    if file.stat().st_uid not in (os.getuid(), 0):
        raise Misuse(f"the code of this flow ({file}) belongs to another user; it is not run")
    found = _attribute(_executed(source, file), source.function)
    if version is not None and found.version != version:
        raise NotFound(
            f"{file} has version {found.version} of the flow {found.name}, and it began with {version};"
            f" {_from_step(of)}"
        )
    return found


def _from_step(flow_id: str) -> str:
    """What to do if the code of a flow has another version than it began with."""
    return f"to go on with the version that is here, choose a step: segue flow resume {flow_id} --from STEP"


def _executed(source: FlowSource, file: Path) -> ModuleType:
    loaded = sys.modules.get(source.module)
    if loaded is not None and _is_file_of(loaded, file):
        return loaded
    name = f"_segue_flow_{file.stem}"  # never __main__: the script's own start must not run
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise NotFound(f"the code of this flow ({file}) is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))  # as Python does for a script
    spec.loader.exec_module(module)
    return module


def _is_file_of(module: ModuleType, file: Path) -> bool:
    known = getattr(module, "__file__", None)
    return known is not None and os.path.exists(known) and file.samefile(known)


def _places(name: str) -> tuple[str, ...]:
    if name not in BUILT_IN:
        raise NotFound(f"there is no flow {name!r:.60}; known: {', '.join(sorted(BUILT_IN)) or 'none'}")
    return BUILT_IN[name]


def _parts(place: str) -> tuple[str, str]:
    module, _, function = place.partition(":")
    return module, function


def _attribute(module: ModuleType, function: str) -> FlowDefinition:
    found = getattr(module, function, None)
    if not isinstance(found, FlowDefinition):
        raise NotFound(f"{module.__name__} has no flow {function}")
    return found
