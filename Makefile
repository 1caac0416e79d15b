# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo install dev check lint types unit packages clis test live live-latest soak soak-rest soak-page soak-pythons bench screenshots dist clean

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("segue needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

install: $(VENV)/.installed  ## segue itself, in .venv
dev: $(VENV)/.dev

demo: install  ## a conversation on the built-in agent: no account, no network
	@sh scripts/demo.sh $(BIN)

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: dev
	$(BIN)/mypy
	$(BIN)/python -m tests.page.tools

unit: dev
	$(BIN)/python -m pytest tests/unit -q -n auto

check: lint types unit  ## the fast part: lint, types, unit tests (under a minute)

packages:
	@sh scripts/test-packages.sh

clis: dev packages
	$(BIN)/python -m tests.clis
	$(BIN)/python -m tests.peers

# Two more than there are cores: much of the time is spent waiting for a CLI to end. The page's tests are apart: while
# Playwright runs, no other event loop can run in the same process.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))

test: check clis  ## everything CI runs
	$(BIN)/python -m tests.rerun tests/page -q -n 3 --dist worksteal --durations=5
	$(BIN)/python -m tests.rerun tests/laws tests/integration tests/chaos tests/live -q -n $(WORKERS) --dist worksteal --durations=25

live: dev clis  ## the real CLIs only
	$(BIN)/python -m pytest tests/live -q -n auto

live-latest: dev packages  ## the live tests on whatever is newest in the registries
	$(BIN)/python -m tests.clis --latest
	$(BIN)/python -m pytest tests/live -q -n auto --latest

# It takes long: each part runs, whether or not another one failed.
soak: check clis  ## what make test leaves out: all versions, many kills, deep fuzzing, every Python
	$(MAKE) --keep-going soak-rest soak-page soak-pythons

soak-rest: dev
	$(BIN)/python -m pytest tests/unit tests/laws tests/integration tests/chaos tests/live -q -n $(WORKERS) --dist worksteal --durations=40 --soak

soak-page: dev
	$(BIN)/python -m pytest tests/page -q -n 2 --durations=5 --soak

soak-pythons: dev
	sh scripts/pythons.sh 3.11 3.12 3.13

bench: dev clis  ## the measurements, as ratios within one run
	$(BIN)/python -m bench

screenshots: dev packages  ## a picture of each view of the page, in docs/images/
	$(BIN)/python -m tests.page.screenshots

dist: dev  ## the wheel, in dist/
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) .venv-3.* .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
