"""The program ``segue``, also as ``python -m segue``."""

import gc
import os
import sys

from segue import __version__

OBJECTS = 50_000
"""How many new objects the garbage collector waits for. Loading the program alone makes more than a hundred
times its default of 700, and nothing of that is garbage."""


def main() -> None:
    """The version is printed without loading the command line: scripts ask for it often."""
    gc.set_threshold(OBJECTS)
    _open_streams()
    if sys.argv[1:] == ["--version"]:
        print(f"segue {__version__}")
        return
    from segue.cli.main import main as run

    try:
        run()
    except SystemExit as ended:
        # All is written and flushed: taking the interpreter down in order would only cost time.
        os._exit(ended.code if isinstance(ended.code, int) else 1)


def _open_streams() -> None:
    """A closed stdout or stderr must not keep a turn from running, nor an encoding from answering."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the whole run
        else:
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
