# With only make and a Python of 3.11 or later:  make demo   make test
PYTHON ?= python3
MATRIX ?= 3.11 3.12 3.13

VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check --editable

BENCH_FLAGS ?=

# Two installs into one environment at a time would race.
.NOTPARALLEL:
.PHONY: help demo test check bench performance soak matrix clean

help:
	@echo "make demo    train a classifier of handwritten digits inside dispose scopes"
	@echo "make test    the tests, doctests and documentation blocks, but for the long ones"
	@echo "make check   ruff (lint and format) and mypy --strict"
	@echo "make bench   compare with NumPy and PyTorch; BENCH_FLAGS='--quick --only ops'"
	@echo "make performance  measure everything, and write docs/performance.md; BENCH_FLAGS=--quick"
	@echo "make soak    the long test runs, and 500 random examples of each property"
	@echo "make matrix  the tests on each of Python $(MATRIX) that is installed"
	@echo "make clean   remove environments, caches and results"

demo: $(VENV)/.has-examples
	$(BIN)/python examples/train_digits.py

test: $(VENV)/.has-test
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

check: $(VENV)/.has-check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.has-bench
	$(BIN)/python -m benchmarks $(BENCH_FLAGS)

# The other Pythons get the same NumPy, where there is one for them: what is compared is Python.
performance: $(VENV)/.has-bench
	@numpy=$$($(BIN)/python -c 'import numpy; print(numpy.__version__)'); flags=; \
	own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for version in $(MATRIX); do \
		test $$version != $$own || continue; \
		python=$$(.ci/find-python $$version) || { echo "== Python $$version: not installed"; continue; }; \
		$(MAKE) --no-print-directory PYTHON="$$python" VENV=".venv-$$version" .venv-$$version/.has-report || exit 1; \
		.venv-$$version/bin/python -m pip install --quiet --disable-pip-version-check "numpy==$$numpy" || true; \
		flags="$$flags --python=$(CURDIR)/.venv-$$version/bin/python"; \
	done; \
	$(BIN)/python -m benchmarks.performance $$flags $(BENCH_FLAGS)

soak: $(VENV)/.has-test
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile -m "soak or hypothesis"

matrix:
	@found=0; \
	for version in $(MATRIX); do \
		python=$$(.ci/find-python $$version) || { echo "== Python $$version: not installed"; continue; }; \
		found=1; echo "== Python $$version: $$python"; \
		$(MAKE) --no-print-directory test PYTHON="$$python" VENV=".venv-$$version" || exit 1; \
	done; \
	test $$found = 1 || { echo "none of Python $(MATRIX) is installed"; exit 1; }

clean:
	rm -rf .venv .venv-* build dist *.egg-info benchmarks/results
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp for each extra, so that a second call installs nothing.
$(VENV)/.has-%: pyproject.toml $(VENV)/.made
	$(BIN)/python $(INSTALL) ".[$*]"
	@touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is no Python of 3.11 or later: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# Kept, though nothing names them: make takes a file made by a pattern rule for an intermediate one.
.PRECIOUS: $(VENV)/.has-%
