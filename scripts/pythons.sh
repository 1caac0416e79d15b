#!/bin/sh
# The unit and integration tests on every Python that Segue supports, each in a venv of its own. The version of
# .venv is left out: the other tests run there anyway.
# usage: pythons.sh VERSION…
set -eu
cd "$(dirname "$0")/.."

find_python() {
  if "python$1" -c '' >/dev/null 2>&1; then
    command -v "python$1"
    return
  fi
  for program in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if [ -x "$program" ]; then
      echo "$program"
      return
    fi
  done
  echo "make soak needs Python $1: install it, or put python$1 on the PATH" >&2
  return 1
}

own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in "$@"; do
  [ "$version" = "$own" ] && continue
  python=$(find_python "$version")
  venv=".venv-$version"
  echo "== Python $version"
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --editable '.[dev]'
  "$venv/bin/python" -m pytest tests/unit tests/laws tests/integration -q -n 4 --dist worksteal
done
