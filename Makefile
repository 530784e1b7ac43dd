# Everything a newcomer or a maintainer does, by name: `make run` and `make test` first.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
WHOLE := .venv/.whole
LOCK_ENV := build/lock-env
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help env run test test-all test-agents check format bench screenshots lock clean

help:
	@echo "make run          open the browser (ARGS=... goes to backscroll)"
	@echo "make test         run the tests (ARGS=... goes to pytest)"
	@echo "make test-all     run the tests, the long ones too"
	@echo "make test-agents  have Claude Code and Codex go on with what Backscroll hands over (needs npm)"
	@echo "make check        ruff, mypy --strict and the import contracts"
	@echo "make format       let ruff format and fix what it can"
	@echo "make bench        measure beside the peers, and print the table (ARGS=\"--small\", ARGS=\"--only archive --runs 5\")"
	@echo "make screenshots  make the pictures again"
	@echo "make lock         pin the newest versions in the two locks"
	@echo "make clean        remove the environment and everything built"

env: $(READY)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "Backscroll needs Python 3.11 or newer, and '$(PYTHON)' is not: try make PYTHON=python3.13" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes --only-binary :all: --requirement requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# With google-adk and a PostgreSQL server, which only tests and types need: whoever browses need not wait for them.
$(WHOLE): requirements-adk.lock $(READY)
	$(INSTALL) --require-hashes --only-binary :all: --requirement requirements-adk.lock
	@touch $@

run: env
	@$(BIN)/backscroll $(ARGS)

# One process more than small machines have cores: a good part of the tests waits for a terminal. What failed in that
# crowd is run once more by itself, in full view: a machine that was busy passes, a fault does not. The pictures of the
# tests that are not run again are then no sign of one.
test: $(WHOLE)
	$(BIN)/pytest --numprocesses 3 --dist worksteal $(ARGS) || { [ $$? -eq 1 ] && \
	    $(BIN)/pytest --last-failed --last-failed-no-failures none --snapshot-warn-unused $(ARGS); }

# An empty -m overrides the default that leaves the long runs out.
test-all: $(WHOLE)
	BACKSCROLL_KILLS=500 BACKSCROLL_EXAMPLES=500 $(BIN)/pytest --numprocesses 3 --dist worksteal -m "" $(ARGS)

test-agents: env
	@$(BIN)/python tests/agents/run.py $(ARGS)

check: $(WHOLE)
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

# uv resolves for every platform at once, which pip cannot; it is needed for nothing else.
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
