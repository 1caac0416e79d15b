"""``python -m segue``: the same as the command ``segue``."""

from segue.cli.main import main

if __name__ == "__main__":
    main()
