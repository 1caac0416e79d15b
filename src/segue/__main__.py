"""The program ``segue``, also as ``python -m segue``."""

import gc
import os
import sys

from segue import __version__

OBJECTS = 50_000
"""How many new objects the garbage collector waits for. Loading the program alone makes more than a hundred
times its default of 700, and nothing of that is garbage."""


def main() -> None:
    """Run ``segue``. ``--version`` does not load the command line: scripts ask for it often."""
    gc.set_threshold(OBJECTS)
    _open_streams()
    if sys.argv[1:] == ["--version"]:
        print(f"segue {__version__}")
        return
    from segue.cli.main import main as run

    try:
        run()
    except SystemExit as ended:
        # Everything is written and flushed: shutting the interpreter down would only cost time.
        os._exit(ended.code if isinstance(ended.code, int) else 1)


def _open_streams() -> None:
    """Neither a closed stdout or stderr nor the encoding of one must make a turn fail."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the whole run
        else:
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
