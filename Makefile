# make demo | test | test-all | test-browser | check | gpu | bench | docs | format | clean
#
# `make test` is the checks and what protects most for its seconds, within 6 minutes of two cores:
# every test, with all its cases or with a few that are spread over their values. `make test-all` is
# every case, what is marked slow too: all mutants of the simulator's kernels, all kernels of a matrix.
#
# Everything runs from .venv, which is built on first use. A machine that brings its own Python
# with the packages (a GPU machine without a network, say) names it: `make gpu PYTHON=python3`.

ifeq ($(origin PYTHON), undefined)
PYTHON := .venv/bin/python
BASE := .venv/.base
DEV := .venv/.dev
# `make gpu` runs where the GPU is, with the Python that has torch for it.
GPU_PYTHON ?= python3
else
GPU_PYTHON ?= $(PYTHON)
endif

SOURCES := warpsmith pages tests examples $(wildcard bench)
TYPED := warpsmith pages $(wildcard bench)
BENCH ?= pointwise reduction compile host

# Each of the two processes of tests has one core: threads of NumPy and torch would wait for each
# other. Bytecode is kept whatever the environment says, for the many processes that tests start.
# What is freed stays in their heaps: each compile by NVRTC would ask the system for it again.
TESTED := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	MALLOC_TRIM_THRESHOLD_=536870912 MALLOC_MMAP_THRESHOLD_=33554432 \
	$(PYTHON) -m pytest -n 2 --dist worksteal --timeout 300 --ignore=tests/gpu -p no:logging

.PHONY: demo test test-all test-browser check gpu bench docs format clean .venv
.DEFAULT_GOAL := test

demo: $(BASE)
	$(PYTHON) -m warpsmith demo

test: check
	$(TESTED) tests

test-all: check
	$(TESTED) -m "slow or not slow" tests

# The page of `warpsmith explain --html` in headless Chromium, which `apt-get` installs where there is
# none. `make test` runs these tests too, and skips them without a browser.
test-browser: $(DEV)
	command -v chromium >/dev/null || (apt-get update && apt-get install -y --no-install-recommends chromium)
	$(PYTHON) -m pytest -q tests/page/test_browser.py

check: $(DEV)
	$(PYTHON) -m ruff format --check $(SOURCES)
	$(PYTHON) -m ruff check $(SOURCES)
	$(PYTHON) -m mypy --strict $(TYPED)
	$(PYTHON) -m pytest -q tests/test_imports.py

gpu:
	$(GPU_PYTHON) -m pytest -q -W default tests/gpu

bench:
	$(GPU_PYTHON) -m warpsmith bench $(BENCH)

# Everything in the pages that a command prints, draws or counts.
docs: $(DEV)
	$(PYTHON) -m bench.readme
	$(PYTHON) -m pages
	$(PYTHON) -m tests.support.meetings
	$(PYTHON) -m tests.support.role_fault_table docs/lessons/roles.md

format: $(DEV)
	$(PYTHON) -m ruff format $(SOURCES)
	$(PYTHON) -m ruff check --fix $(SOURCES)

clean:
	rm -rf .venv .cache build dist *.egg-info .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: .venv/.dev

# The stamps depend on pyproject.toml: a changed pin reinstalls, anything else does not.
.venv/.base: pyproject.toml
	@echo "warpsmith: creating .venv with the runtime packages (about a minute)"
	test -x .venv/bin/python || python3 -m venv .venv
	.venv/bin/python -m pip install --quiet pip==26.3
	.venv/bin/python -m pip install --progress-bar on --group base
	.venv/bin/python -m pip install --quiet --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.base
	@echo "warpsmith: adding torch and the tools for tests (a few minutes)"
	.venv/bin/python -m pip install --progress-bar on --group dev
	@touch $@
