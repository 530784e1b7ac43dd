# The commands for working with the project. `make help` lists them; start with `make run` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TEST_READY := .venv/.test-ready
LOCK_ENV := build/lock-env
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help env run test test-all test-agents check format bench screenshots lock clean

help:
	@echo "make run          open the browser (ARGS=... goes to backscroll)"
	@echo "make test         run the tests (ARGS=... goes to pytest)"
	@echo "make test-all     run all tests, including the long ones"
	@echo "make test-agents  let the real Claude Code and Codex continue sessions (needs npm)"
	@echo "make check        run ruff, mypy --strict and the import contracts"
	@echo "make format       format the code, and fix what ruff can fix"
	@echo "make bench        measure against other programs and print a table (ARGS=\"--small\", ARGS=\"--only archive --runs 5\")"
	@echo "make screenshots  renew the pictures in screenshots/"
	@echo "make lock         pin the newest versions in both lock files"
	@echo "make clean        remove the environment and everything built"

env: $(READY)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "Backscroll needs Python 3.11 or newer, but '$(PYTHON)' is older. Try: make PYTHON=python3.13" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes --only-binary :all: --requirement requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Adds google-adk and a PostgreSQL server. Only tests and type checks need them, so `make run` does not wait for them.
$(TEST_READY): requirements-adk.lock $(READY)
	$(INSTALL) --require-hashes --only-binary :all: --requirement requirements-adk.lock
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

test-agents: env
	@$(BIN)/python tests/agents/run.py $(ARGS)

check: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict store tui
	$(BIN)/lint-imports

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: env
	@cd tests && PYTHONPATH=helpers $(abspath $(BIN))/python -m bench.run $(ARGS)

screenshots: env
	$(BIN)/python screenshots/make.py

# uv resolves versions for all platforms together, which pip cannot do. Nothing else needs uv.
COMPILE = $(LOCK_ENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
    --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml

lock:
	$(PYTHON) -m venv $(LOCK_ENV)
	$(LOCK_ENV)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) --extra dev --output-file requirements.lock
	$(COMPILE) --extra dev-adk --constraint requirements.lock --output-file requirements-adk.lock

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find store tui tests screenshots -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
