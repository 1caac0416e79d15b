"""The program ``segue``, also as ``python -m segue``."""

import sys

from segue import __version__


def main() -> None:
    """The version is said without loading the command line: scripts ask for it often."""
    if sys.argv[1:] == ["--version"]:
        print(f"segue {__version__}")
        return
    from segue.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
