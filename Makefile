# Everything a fresh machine needs: Python 3.11 or newer and the package registries.
#   make demo   run real tasks on a cluster that scales up and down   (BROKER=redis or BROKER=amqp for other brokers)
#   make test   format check, lint, types, import rules and all tests
# the first interpreter that runs and is new enough (a version manager's shim may exist and yet not run)
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BROKER ?= embedded
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?= -n 2
BENCH_ARGS ?=

.PHONY: all demo test lint types format unit docs bench build dist clean venv

all: test

venv: $(STAMP)

$(STAMP): pyproject.toml setup.py dev-requirements.txt
	@test -n "$(PYTHON)" || { echo "hpc-autoscale needs Python 3.11 or newer on PATH (or set PYTHON=/path/to/python3)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]' -r dev-requirements.txt
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/python example-celery/demo.py --broker $(BROKER)

test: lint types unit

lint: $(STAMP)
	$(BIN)/black --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

format: $(STAMP)
	$(BIN)/black --quiet .
	$(BIN)/ruff check --quiet --fix .

# the generated tables of README.md and docs/, and the reference in build/api
docs: $(STAMP)
	$(BIN)/python tools/make_docs.py
	$(BIN)/python tools/make_reference.py

# the figures of benchmarks/README.md   (BENCH_ARGS='--only W1,W2', BENCH_ARGS='--quick')
bench: $(STAMP)
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

# dist/: the library under its own name, and under the one that installers of existing integrations look for
build dist: $(STAMP)
	$(BIN)/python setup.py build

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
