"""The entry point: calls the command, and turns every failure into one line and the right exit code."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

from segue.cli.render.output import harmless, say, say_json
from segue.cli.turn_options import run_call
from segue.core.errors import SegueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. Exit codes: 0 ok, 1 failed, 2 misuse, 75 try again, 124 limit, 130 cancelled."""
    threading.excepthook = _report_thread_failure
    try:
        _settle_environment()
        code = _call()
        sys.stdout.flush()
    except SegueError as error:
        code = _complain(error.message, error.code, error.exit_code)
    except KeyboardInterrupt:
        code = _complain("cancelled", "cancelled", 130)
    except BrokenPipeError:
        code = 141
    except OSError as error:
        misuse = isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError)
        code = _complain(_why(error), "system", 2 if misuse else 1)
    except Exception as error:
        code = _complain(f"internal error: {error!r}{_kept()}", "internal", 1)
    _leave(code)


def _call() -> int:
    """Call the command. A plain ``segue run`` or change does not need click, which takes long to load."""
    call = run_call(sys.argv[1:], os.environ)
    if call is not None:
        from segue.cli.turn import run_turn

        return run_turn(*call)
    if sys.argv[1:2] != ["run"]:
        from segue.cli.change_options import change_call

        if (change := change_call(sys.argv[1:], os.environ)) is not None:
            change()
            return 0
    from segue.cli.commands import invoke

    return invoke()


def _report_thread_failure(failed: threading.ExceptHookArgs) -> None:
    """Report the failure of a thread in one line. Python itself would also print escape sequences in it."""
    with suppress(OSError):
        say(f"segue: internal error: {failed.exc_value!r}", err=True)


def _settle_environment() -> None:
    """Set ``HOME`` if the environment lacks it, or agents would create their homes in the project. Make
    ``SEGUE_HOME`` absolute, so that it means the same in every directory."""
    named = os.environ.get("SEGUE_HOME", "")
    if os.environ.get("HOME", "").startswith("/") and (not named or named.startswith("/")):
        return
    from pathlib import Path

    from segue.config.home import settled_environment

    os.environ.update(settled_environment(os.environ, Path.cwd()))


def _leave(code: int) -> NoReturn:
    """Exit. Output that cannot be written because the reader has gone must not cause an error at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "the current directory no longer exists; change to another one"
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _kept() -> str:
    """Write the traceback of an internal error to a file, and say where it is."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="segue-crash-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return f" (details: {file.name})"


def _complain(message: str, code: str, exit_code: int) -> int:
    """Print one line on stderr; with ``--json``, also an object as the last line of stdout."""
    line = " ".join(harmless(message).split()).encode("utf-8", "backslashreplace").decode()
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        say(f"segue: {line}", err=True)
        if {"--json", "--events"} & set(sys.argv):
            from segue.app.shapes import ErrorDetail, ErrorShown

            say_json(ErrorShown(error=ErrorDetail(code, line)))
    return exit_code
