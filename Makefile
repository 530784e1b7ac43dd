# The commands for working with the project. `make help` lists them; start with `make run` and `make test`.

SHELL := bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEV_READY := .venv/.dev-ready
TEST_READY := .venv/.test-ready
LOCK_ENV := build/lock-env
PIP := PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check

.PHONY: help env run test test-all test-agents check format bench screenshots prices lock clean

help:
	@echo "make run          install what running needs, and open the browser (ARGS=... goes to backscroll)"
	@echo "make test         run the tests (ARGS=... goes to pytest)"
	@echo "make test-all     run all tests, including the long ones"
	@echo "make test-agents  let the real Claude Code and Codex continue sessions (needs npm)"
	@echo "make check        run ruff, mypy --strict and the import contracts"
	@echo "make format       format the code, and fix what ruff can fix"
	@echo "make bench        measure against other programs and print a table (ARGS=\"--small\", ARGS=\"--only archive --runs 5\")"
	@echo "make screenshots  renew the pictures in screenshots/"
	@echo "make prices       take the newest rates of models from genai-prices into store/usage/prices.json"
	@echo "make lock         pin the newest versions in all lock files"
	@echo "make clean        remove the environment and everything built"

env: $(READY)

# Installs the packages of a lock file and prints a line for each, because it may take a minute.
define install_lock
@echo "Installing the packages in $(1):"
@$(PIP) --require-hashes --only-binary :all: --requirement $(1) | awk -v total=$$(grep -c '^[a-z].*==' $(1)) ' \
    /^(Collecting|Processing|Ignoring|Requirement already)/ { count++ }; \
    /^(Collecting|Processing)/ { sub(".*/", "", $$2); printf "  %3d of %d  %s\n", count, total, $$2 }; \
    /^Installing collected/ { print "  copying them into .venv" }; \
    { fflush() }'
endef

# What running needs, and nothing else.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "Backscroll needs Python 3.11 or newer, but '$(PYTHON)' is older. Try: make PYTHON=python3.13" >&2; exit 1; }
	@echo "Creating an environment in .venv"
	@$(PYTHON) -m venv .venv
	$(call install_lock,requirements.lock)
	@$(PIP) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Adds what tests and checks need.
$(DEV_READY): requirements-dev.lock $(READY)
	$(call install_lock,requirements-dev.lock)
	@touch $@

# Adds google-adk and a PostgreSQL server. Only some tests and the type checks need them.
$(TEST_READY): requirements-adk.lock $(DEV_READY)
	$(call install_lock,requirements-adk.lock)
	@touch $@

run: env
	@$(BIN)/backscroll $(ARGS)

# Uses three processes, because many tests only wait for a terminal. Failed tests are repeated alone: a test that failed
# because the machine was busy then passes, a real fault fails again. The repetition runs only some of the snapshot tests,
# so snapshots that it does not use are no error.
test: $(TEST_READY)
	$(BIN)/pytest --numprocesses 3 --dist worksteal $(ARGS) || { [ $$? -eq 1 ] && \
	    $(BIN)/pytest --last-failed --last-failed-no-failures none --snapshot-warn-unused $(ARGS); }

# The empty -m overrides the default, which skips the tests marked `long`.
test-all: $(TEST_READY)
	BACKSCROLL_KILLS=500 BACKSCROLL_EXAMPLES=500 $(BIN)/pytest --numprocesses 3 --dist worksteal -m "" $(ARGS)

test-agents: $(DEV_READY)
	@$(BIN)/python tests/agents/run.py $(ARGS)

check: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict store tui
	$(BIN)/lint-imports

format: $(DEV_READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_READY)
	@cd tests && PYTHONPATH=helpers $(abspath $(BIN))/python -m bench.run $(ARGS)

screenshots: $(DEV_READY)
	$(BIN)/python screenshots/make.py
	$(BIN)/python screenshots/tour.py

# genai-prices is installed apart from .venv, because nothing else needs it.
prices: $(READY)
	@$(PIP) --quiet --upgrade --target build/prices genai-prices
	PYTHONPATH=build/prices $(BIN)/python -m store.usage.bake_prices

# uv resolves versions for all platforms together, which pip cannot do. Nothing else needs uv.
COMPILE = $(LOCK_ENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
    --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml

lock:
	$(PYTHON) -m venv $(LOCK_ENV)
	$(LOCK_ENV)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) --extra checkout --extra images --extra leaks --output-file requirements.lock
	$(COMPILE) --extra dev --constraint requirements.lock --output-file requirements-dev.lock
	$(COMPILE) --extra dev-adk --constraint requirements-dev.lock --output-file requirements-adk.lock

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find store tui tests screenshots -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
