# With only make and a Python of 3.11 or later:  make demo   make test
PYTHON ?= python3
MATRIX ?= 3.11 3.12 3.13 3.14

# A debugging build, and each with sanitizers, has an environment of its own with the build tree in it.
DEBUG ?=
SANITIZE ?=
comma := ,
KIND := $(addprefix -,$(subst $(comma),-,$(SANITIZE)))$(if $(DEBUG),-debug)
VENV := .venv$(KIND)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

BENCH_FLAGS ?=
# Files in the order of tests/collection.py: those that start processes first, so that none of them runs alone at the end.
# A process that ends in a test would otherwise be replaced, and run that test again, some ten times.
TEST_FLAGS ?= -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# A number, by which pytest-randomly shuffles the tests.
RANDOM_ORDER ?=
SHUFFLED := $(if $(RANDOM_ORDER),-p randomly --randomly-seed=$(RANDOM_ORDER))

PACKAGES := scopes tensor nn disposescope
MODULES := $(subst /,.,$(basename $(shell find $(PACKAGES) -name '*.pyx')))
COMPILED := $(shell find $(PACKAGES) -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h' -o -name '*.cpp')

# Two installs into one environment at a time would race.
.NOTPARALLEL:
.PHONY: help demo test test-repeatedly test-foreign test-interop test-ray conformance programs opinfo test-torch-files test-suites mutants build check docs dist \
	test-arm64 bench bench-cluster performance soak matrix nightly clean FORCE

help:
	@echo "make demo    train a classifier of handwritten digits inside dispose scopes"
	@echo "make test    the tests, doctests and documentation blocks, but for the long ones; TEST_FLAGS='-n 2 tests/nn'"
	@echo "make test-repeatedly  the tests TIMES=10 times over, until one fails or hangs"
	@echo "make test-foreign  the tests with PyTorch, JAX and Jupyter, where these can be installed"
	@echo "make test-interop  the tests with SciPy, scikit-learn, xarray, einops and opt_einsum on tensors"
	@echo "make conformance SUITE=folder  the array API standard's own suite, from a checkout of it; VERSION=2025.12"
	@echo "make programs EXAMPLES=folder MINGPT=folder  PyTorch's examples and minGPT beside PyTorch, from checkouts of them"
	@echo "make test-suites TORCHMETRICS=folder ...  other projects' own tests inside scopes, from checkouts of them"
	@echo "make test-torch-files PYTORCH=folder  PyTorch's own test files on tensor.torch, from a checkout of PyTorch"
	@echo "make opinfo  PyTorch's own test data on tensor.torch beside PyTorch; writes docs/opinfo.md, in some minutes"
	@echo "make mutants COUNT=40 SEED=0  small changes to the library, one at a time: which tests notice them; IN='scopes nn/optim'"
	@echo "make test-ray      the tests with Ray, where it can be installed; those of several nodes need PyTorch too"
	@echo "make test-arm64  the tests of kernels on ARM64, emulated; TESTS='tests/tensor tests/scopes tests/nn'"
	@echo "make build   compile and install into $(VENV), as all others do when a source has changed"
	@echo "make check   ruff (lint and format), mypy --strict, pyright, cython-lint, stubs against compiled modules, plain English"
	@echo "make docs    the documentation as a site, in docs/_build/html; its links are checked"
	@echo "make dist    the source archive, the wheel and its bill of materials, checked and tried in a new environment"
	@echo "make bench   compare with NumPy and PyTorch; BENCH_FLAGS='--quick --only ops'"
	@echo "make bench-cluster  jobs on Ray: steps against their ideal and against PyTorch's, written into docs/cluster.md"
	@echo "make performance  measure everything, and write docs/performance.md; BENCH_FLAGS=--quick"
	@echo "make soak    the long test runs, and 500 random examples of each property"
	@echo "make matrix  the tests on each of Python $(MATRIX) that is installed"
	@echo "make nightly  what takes too long for each change: every Python, the debugging build, Ray, the long runs"
	@echo "make clean   remove environments, builds, caches and results"
	@echo "With DEBUG=1 or SANITIZE=address,undefined: the same in a build with checks; see CONTRIBUTING.md"

demo: $(VENV)/.has-examples $(VENV)/.built
	$(BIN)/python examples/train_digits.py

# RANDOM_ORDER=7 runs the tests in the order of that seed; NUMPY=2.2.5 tests with that version.
NUMPY ?=

test: $(VENV)/.has-test $(if $(RANDOM_ORDER),$(VENV)/.has-random-order) $(VENV)/.built
	$(if $(NUMPY),$(PIP) install "numpy==$(NUMPY)")
	@echo "== Testing: some minutes on two cores, less on more; TEST_FLAGS='tests/nn' tests a part"
	@began=$$(date +%s); echo "$(BIN)/python -m pytest $(TEST_FLAGS)"; \
	DISPOSESCOPE_FORBID_SKIPS=test $(SANITIZED) $(BIN)/python -m pytest $(TEST_FLAGS) $(SHUFFLED); status=$$?; \
	took=$$(($$(date +%s) - began)); echo "== Tested in $$((took / 60)) min $$((took % 60)) s"; exit $$status

# A test that hangs prints the stacks of all threads after ten minutes, and fails; a run ends after LIMIT.
TIMES ?= 10
LIMIT ?= 2400
test-repeatedly: $(VENV)/.has-test $(VENV)/.built
	@for run in $$(seq $(TIMES)); do \
		echo "== Run $$run of $(TIMES)"; \
		timeout -s KILL $(LIMIT) $(BIN)/python -m pytest $(TEST_FLAGS) || exit 1; \
	done

# All tests that need the libraries of the group `foreign`: tests/collection.py finds them. A skip is an error here.
# Where the libraries can't be installed, one line says so, and nothing fails.
test-foreign: $(VENV)/.has-test $(VENV)/.built
	@echo "== PyTorch, JAX, Jupyter and frameworks: some minutes to install, the first time"
	@if $(MAKE) --no-print-directory $(VENV)/.has-foreign; then \
		files=$$($(BIN)/python -m tests.collection foreign) || exit 1; \
		echo "$(BIN)/python -m pytest $(TEST_FLAGS) -m 'foreign and not soak and not ray and not cupy'"; \
		DISPOSESCOPE_FORBID_SKIPS=foreign $(BIN)/python -m pytest $(TEST_FLAGS) \
			-m 'foreign and not soak and not ray and not cupy' $$files; \
	else \
		echo "== Skipped: PyTorch, JAX and Jupyter can't be installed here, as pip says above"; \
	fi

# SciPy looks at its switch when it is first imported. The second line is scikit-learn's own tests, on tensors.
test-interop: $(VENV)/.has-test $(VENV)/.has-interop $(VENV)/.built
	SCIPY_ARRAY_API=1 DISPOSESCOPE_FORBID_SKIPS=interop $(BIN)/python -m pytest $(TEST_FLAGS) tests/interop
	SCIPY_ARRAY_API=1 $(BIN)/python -m tests.interop.sklearn_suite -n auto --maxprocesses 4 --dist loadfile --max-worker-restart 0

# No package carries the suite: docs/array_api.md says where it is.
VERSION ?= 2024.12
SUITE ?=
conformance: $(VENV)/.has-test $(VENV)/.built
	@test -d "$(SUITE)/array_api_tests" || { echo "make conformance SUITE=folder: a checkout of array-api-tests, with its submodule"; exit 1; }
	$(PIP) install -r $(SUITE)/requirements.txt
	cd $(SUITE) && ARRAY_API_TESTS_VERSION=$(VERSION) \
		ARRAY_API_TESTS_MODULE="exec('import tensor; xp = tensor.ones(()).__array_namespace__(api_version=\"$(VERSION)\")')" \
		$(CURDIR)/$(BIN)/python -m pytest array_api_tests --max-examples=150

# The programs are not ours to copy: docs/pytorch_programs.md says where they are.
EXAMPLES ?=
MINGPT ?=
ONLY ?=
programs: $(VENV)/.has-bench $(VENV)/.built
	@test -d "$(EXAMPLES)/mnist" -a -d "$(MINGPT)/mingpt" || { echo "make programs EXAMPLES=folder MINGPT=folder: checkouts of pytorch/examples and karpathy/minGPT"; exit 1; }
	$(BIN)/python -m tests.programs --examples $(EXAMPLES) --mingpt $(MINGPT) $(if $(ONLY),--only $(ONLY))

# Other projects' own tests, plain, in a scope for each test, and in one for each call of the library: docs/pytorch.md
# says where they are. EACH=20 runs one of 20; MODES="calls calls-exact" runs these beside the plain ones.
BOTORCH ?=
CAPTUM ?=
DIFFUSERS ?=
GPYTORCH ?=
KORNIA ?=
LIGHTNING ?=
SKORCH ?=
TORCHMETRICS ?=
TIMM ?=
TRANSFORMERS ?=
EINOPS ?=
PYTORCH ?=
MODES ?=
EACH ?= 1
SUITES := $(if $(TORCHMETRICS),--torchmetrics $(TORCHMETRICS)) $(if $(TIMM),--timm $(TIMM)) \
	$(if $(TRANSFORMERS),--transformers $(TRANSFORMERS)) $(if $(EINOPS),--einops $(EINOPS)) $(if $(PYTORCH),--torch $(PYTORCH)) \
	$(if $(CAPTUM),--captum $(CAPTUM)) $(if $(KORNIA),--kornia $(KORNIA)) $(if $(GPYTORCH),--gpytorch $(GPYTORCH)) \
	$(if $(BOTORCH),--botorch $(BOTORCH)) $(if $(SKORCH),--skorch $(SKORCH)) $(if $(LIGHTNING),--lightning $(LIGHTNING)) \
	$(if $(DIFFUSERS),--diffusers $(DIFFUSERS))
test-suites: $(VENV)/.has-torch-suites $(VENV)/.built
	@test -n "$(strip $(SUITES))" || { echo "make test-suites TORCHMETRICS=folder TIMM=folder TRANSFORMERS=folder EINOPS=folder PYTORCH=folder: checkouts of one or more"; exit 1; }
	$(BIN)/python -m tests.suites $(SUITES) --each $(EACH) $(if $(ONLY),--only $(ONLY)) $(if $(MODES),--modes $(MODES))
	$(BIN)/python -m pytest -q tests/scopes/foreign/test_torch_frameworks.py

# PyTorch's data bases of samples against tensor.torch; ONLY="add linalg.solve" runs some, and writes no page.
opinfo: $(VENV)/.has-opinfo $(VENV)/.built
	$(BIN)/python -m tests.opinfo $(if $(ONLY),--only $(ONLY))

# PyTorch's own test files on tensor.torch, from a checkout of PyTorch; ONLY="test_indexing.py" runs some.
test-torch-files: $(VENV)/.has-opinfo $(VENV)/.built
	@test -d "$(PYTORCH)/test" || { echo "make test-torch-files PYTORCH=folder: a checkout of PyTorch"; exit 1; }
	$(BIN)/python -m tests.torch_files --pytorch $(PYTORCH) $(if $(ONLY),--only $(ONLY))

# Small changes in a copy of the tree, which tests must notice: see tests/mutants.py. One at a time, at low priority.
COUNT ?= 40
SEED ?= 0
IN ?=
mutants: $(VENV)/.has-foreign $(VENV)/.built
	$(BIN)/python -m tests.mutants --count $(COUNT) --seed $(SEED) $(IN)

# A cluster of its own for each file, on this machine: not on several processes at once.
RAY_TESTS := nn/parallel tests/nn/test_parallel_exchange.py tests/nn/test_parallel_ray.py tests/nn/test_parallel_faults.py

test-ray: $(VENV)/.has-test $(VENV)/.built
	@if $(MAKE) --no-print-directory $(VENV)/.has-ray > $(VENV)/ray.log 2>&1; then \
		echo "$(BIN)/python -m pytest -n 0 $(RAY_TESTS)"; \
		DISPOSESCOPE_FORBID_SKIPS=ray $(BIN)/python -m pytest -n 0 -o faulthandler_timeout=1500 $(RAY_TESTS); \
	else \
		echo "== Skipped: Ray can't be installed here; $(VENV)/ray.log says why"; \
	fi

# Emulated, a test takes 10 to 50 times as long. SUITE=trixie takes the Python of another release of Debian.
SUITE ?=
TESTS ?=
test-arm64: $(VENV)/.made
	SUITE="$(SUITE)" TESTS="$(TESTS)" VENV="$(VENV)" .ci/test-arm64

build: $(VENV)/.built

check: $(VENV)/.has-check $(VENV)/.built
	$(BIN)/python .ci/write-stubs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python --warnings
	$(BIN)/python .ci/type-completeness $(PACKAGES)
	$(BIN)/python .ci/check-english
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint $(PACKAGES)
	$(BIN)/stubtest --mypy-config-file pyproject.toml --ignore-disjoint-bases \
		--allowlist .ci/stubtest-allowlist --ignore-unused-allowlist $(MODULES) tensor.torch.functions

docs: $(VENV)/.has-docs $(VENV)/.built
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs docs/_build/html
	$(BIN)/python .ci/check-site docs/_build/html

# What PyPI would take: the source archive, the wheel built from it, and the list of what it needs (CycloneDX). The wheel is
# installed where no compiler is found, and a program runs on it. On Linux auditwheel names the systems it runs on.
dist: $(VENV)/.made $(COMPILER)
	rm -rf dist .venv-dist
	$(PIP) install --quiet "pip>=25.1"
	$(PIP) install --group release
	$(WITH) $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv .venv-dist
	PATH=/nowhere .venv-dist/bin/python -m pip --disable-pip-version-check install --only-binary :all: dist/*.whl
	.venv-dist/bin/python examples/scopes_tour.py
	.venv-dist/bin/python -P -c "import disposescope, nn"
	version=$$(.venv-dist/bin/python -P -c "import disposescope; print(disposescope.__version__)") && \
		sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml > .venv-dist/pyproject.toml
	$(BIN)/cyclonedx-py environment --pyproject .venv-dist/pyproject.toml --mc-type library \
		--output-file dist/disposescope.cdx.json .venv-dist
	$(if $(filter Linux,$(shell uname -s)),$(BIN)/auditwheel show dist/*.whl)

bench: $(VENV)/.has-bench $(VENV)/.built
	$(BIN)/python -m benchmarks $(BENCH_FLAGS)

# Four to eight minutes; the contender is PyTorch. `BENCH_FLAGS=--quick` writes nothing.
bench-cluster: $(VENV)/.has-bench $(VENV)/.has-ray $(VENV)/.built
	$(BIN)/python -m benchmarks.cluster $(BENCH_FLAGS)
	$(BIN)/python -m benchmarks.cluster_costs $(BENCH_FLAGS)

# The other Pythons get the same NumPy, where there is one for them: what is compared is Python. --levels measures
# one Python only.
performance: $(VENV)/.has-bench $(VENV)/.built
	@numpy=$$($(BIN)/python -c 'import numpy; print(numpy.__version__)'); flags=; \
	own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for version in $(if $(findstring --levels,$(BENCH_FLAGS)),,$(MATRIX)); do \
		test $$version != $$own || continue; \
		python=$$(.ci/find-python $$version) || { echo "== Python $$version: not installed"; continue; }; \
		venv=.venv-$$version$(KIND); \
		$(MAKE) --no-print-directory PYTHON="$$python" VENV=$$venv $$venv/.has-report $$venv/.built || exit 1; \
		$$venv/bin/python -m pip install --quiet --disable-pip-version-check "numpy==$$numpy" || true; \
		flags="$$flags --python=$(CURDIR)/$$venv/bin/python"; \
	done; \
	$(BIN)/python -m benchmarks.performance $$flags $(BENCH_FLAGS)

soak: $(VENV)/.has-test $(VENV)/.built
	HYPOTHESIS_PROFILE=soak $(SANITIZED) $(BIN)/python -m pytest $(TEST_FLAGS) -m "soak or hypothesis" \
		-o faulthandler_timeout=3600

matrix:
	@found=0; \
	for version in $(MATRIX); do \
		python=$$(.ci/find-python $$version) || { echo "== Python $$version: not installed"; continue; }; \
		found=1; echo "== Python $$version: $$python"; \
		$(MAKE) --no-print-directory test PYTHON="$$python" VENV=".venv-$$version$(KIND)" || exit 1; \
	done; \
	test $$found = 1 || { echo "none of Python $(MATRIX) is installed"; exit 1; }

nightly:
	.ci/nightly

clean:
	rm -rf .venv .venv-* build dist *.egg-info benchmarks/results docs/_build docs/reference
	rm -rf tensor/torch/functions.pyi nn/__init__.pyi nn/*/__init__.pyi nn/*/*/__init__.pyi .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# How it is compiled: with $$CXX if that is set, with a compiler of the machine, or with Zig's, which comes as a
# wheel. The build tree is in the environment, so that only what has changed is compiled again.
CXX_FOUND := $(if $(filter default undefined,$(origin CXX)),$(shell for c in c++ g++ clang++; do command -v $$c && break; done),$(CXX))
ifeq ($(CXX_FOUND),)
COMPILER := $(VENV)/.has-compiler
# The same for all that is compiled, with or without symbols too: Zig makes its C++ library once for each set of them.
ZIG_FLAGS := -fPIC -mcpu=baseline $(if $(DEBUG),-O1 -g,-O2 -s)
WITH := PATH="$(CURDIR)/$(BIN):$$PATH" CXX="python -m ziglang c++" CXXFLAGS="$(ZIG_FLAGS)"
endif
BUILD := --config-settings=build-dir=$(VENV)/build \
	--config-settings=cmake.build-type=$(if $(DEBUG),Debug,Release) \
	--config-settings=cmake.define.SANITIZE=$(SANITIZE)
ifneq ($(SANITIZE),)
# Python itself is not compiled with them, so they are loaded before it; it frees no memory at its end, hence no
# search for leaks; too large a request is refused, not the end of the run; and it must not hide freed objects in pools of its own.
PRELOADED := $(if $(findstring address,$(SANITIZE)),libasan.so) $(if $(findstring thread,$(SANITIZE)),libtsan.so) \
	libstdc++.so
SANITIZED := LD_PRELOAD="$(foreach library,$(PRELOADED),$$($(CXX_FOUND) -print-file-name=$(library)))" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	TSAN_OPTIONS=suppressions=$(CURDIR)/.ci/tsan-suppressions PYTHONMALLOC=malloc
endif

$(VENV)/.built: $(VENV)/.has-backend $(COMPILER) $(VENV)/.files $(COMPILED) CMakeLists.txt pyproject.toml
	@echo "== Compiling disposescope into $(VENV): $(if $(DEBUG),debugging build,release)$(if $(SANITIZE), with $(SANITIZE)); some minutes the first time"
	$(WITH) $(PIP) install --verbose --no-deps --no-build-isolation $(BUILD) --editable .
	$(BIN)/python .ci/write-stubs
	@touch $@

# Changes when a module is added, removed or renamed: the installed package has to know. Without stubs, which a build
# writes: they would call for a second build.
$(VENV)/.files: $(VENV)/.made FORCE
	@find $(PACKAGES) -name '*.py' -o -name '*.pyx' -o -name '*.pxd' | sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(VENV)/.has-backend: pyproject.toml $(VENV)/.made
	@echo "== Installing what compiles disposescope into $(VENV)"
	$(PIP) install cmake ninja $$($(BIN)/python -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	@touch $@

$(VENV)/.has-compiler: $(VENV)/.made
	@echo "== No C++ compiler found (c++, g++, clang++): compiling with Zig's, installed from PyPI (ziglang, 100 MB)"
	$(PIP) install ziglang
	@echo "== Zig makes its C++ library first: one to four minutes"
	echo 'int main() {}' > $(VENV)/empty.cpp
	$(BIN)/python -m ziglang c++ $(ZIG_FLAGS) -shared -o $(VENV)/empty.so $(VENV)/empty.cpp
	@touch $@

# A stamp for each dependency group, so that a second call installs nothing. An older pip knows no groups.
$(VENV)/.has-%: pyproject.toml $(VENV)/.made | $(VENV)/.built
	@echo "== Installing what 'make' needs for: $*"
	$(PIP) install --quiet "pip>=25.1"
	$(PIP) install --group "$*"
	@touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is no Python of 3.11 or later: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# Kept, though nothing names them: make takes a file made by a pattern rule for an intermediate one.
.PRECIOUS: $(VENV)/.has-%
