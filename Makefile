# With only make and a Python of 3.11 or later:  make demo   make test
PYTHON ?= python3
MATRIX ?= 3.11 3.12 3.13

VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check --editable

BENCH_FLAGS ?=

# Two installs into one environment at a time would race.
.NOTPARALLEL:
.PHONY: help demo test check bench soak matrix clean

help:
	@echo "make demo    train a classifier of handwritten digits inside dispose scopes"
	@echo "make test    all tests, doctests and documentation blocks"
	@echo "make check   ruff (lint and format) and mypy --strict"
	@echo "make bench   compare with NumPy and PyTorch; BENCH_FLAGS='--quick --only ops'"
	@echo "make soak    the long test runs"
	@echo "make matrix  the tests on each of Python $(MATRIX) that is installed"
	@echo "make clean   remove environments, caches and results"

demo: $(VENV)/.has-examples
	$(BIN)/python examples/train_digits.py

test: $(VENV)/.has-test
	$(BIN)/python -m pytest

check: $(VENV)/.has-check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/.has-bench
	$(BIN)/python -m benchmarks $(BENCH_FLAGS)

soak: $(VENV)/.has-test
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -m soak

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
