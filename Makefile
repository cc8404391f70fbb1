# Everything a fresh Linux machine with Python >= 3.11 and make needs. No uv; node, Chromium and PostgreSQL only for tests.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMPS := .make
PIP := $(PY) -m pip --disable-pip-version-check --quiet
PYTEST := $(PY) -m pytest
# The tests start hundreds of processes: without bytecode each of them would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test check soak bench compare lock clean
.DEFAULT_GOAL := help

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pullcord needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Several stamps, so that a demo does not wait for the test tools. --no-deps: the lock file is the whole list.
$(STAMPS)/runtime: $(STAMPS)/venv requirements/runtime.txt pyproject.toml
	$(PIP) install --no-deps --require-hashes -r requirements/runtime.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# The demo's agents talk to a (scripted) model through pydantic-ai.
$(STAMPS)/demo: $(STAMPS)/runtime requirements/demo.txt
	$(PIP) install --no-deps --require-hashes -r requirements/demo.txt
	@touch $@

$(STAMPS)/dev: $(STAMPS)/runtime requirements/dev.txt
	$(PIP) install --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

# What tests need beyond Python: strace makes writes fail, zsh and fish complete what was typed, spin and gcc check the
# models. Without strace, spin or gcc their tests say so and are skipped; without a shell the test of its completion fails. Anew when this file changes.
SYSTEM := strace zsh fish spin gcc
$(STAMPS)/system: $(STAMPS)/venv Makefile
	@missing=""; for name in $(SYSTEM); do command -v $$name >/dev/null || missing="$$missing $$name"; done; \
	  [ -z "$$missing" ] || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; } || \
	  echo "Missing:$$missing. Tests that need strace, spin or gcc are skipped, those of shell completion fail. To run them: apt-get install$$missing"
	@touch $@

# MCP servers of others that the tests run, exactly as the lock file says; nothing of them is run while installing.
MCP := tests/agents/mcp_servers
$(STAMPS)/mcp: $(STAMPS)/venv $(MCP)/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or newer, or the test of an MCP server of others fails."; exit 1; }
	npm ci --prefix $(MCP) --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# The page is tested in a real browser, so without one the tests fail; none is skipped.
# The one without windows: the same engine, a third less work for two cores.
CHROMIUM := $(or $(PULLCORD_CHROMIUM),/usr/bin/chromium-headless-shell)
PACKAGES := chromium-headless-shell fonts-dejavu-core
$(STAMPS)/chromium: $(STAMPS)/venv Makefile
	@command -v $(CHROMIUM) >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(PACKAGES); } || \
	  { echo "Chromium is missing. Install it (apt-get install --no-install-recommends $(PACKAGES)), or say where another is: PULLCORD_CHROMIUM=/path/to/it"; exit 1; }
	@touch $@

# The store in PostgreSQL is tested with a server of the tests' own, so without one they fail; none is skipped.
POSTGRES := $(or $(PULLCORD_POSTGRES),$(lastword $(sort $(wildcard /usr/lib/postgresql/*/bin))))
$(STAMPS)/postgres: $(STAMPS)/venv
	@[ -x "$(POSTGRES)/initdb" ] || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } || \
	  { echo "PostgreSQL is missing. Install it (apt-get install --no-install-recommends postgresql), or say where its programs are: PULLCORD_POSTGRES=/path/to/bin"; exit 1; }
	@touch $@

# What builds and checks the page, exactly as the lock file says. Nobody needs it to run Pullcord: what is built is committed.
$(STAMPS)/web: $(STAMPS)/venv web/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or newer, or the tests of the page fail."; exit 1; }
	npm ci --prefix web --ignore-scripts --no-audit --no-fund --silent
	@touch $@

setup: $(STAMPS)/dev $(STAMPS)/system $(STAMPS)/mcp $(STAMPS)/chromium $(STAMPS)/postgres $(STAMPS)/web ## Install everything, locked, into .venv

demo: $(STAMPS)/demo ## See it: the page, with agents to pause, redirect, resume and cancel (Ctrl-C ends it)
	@$(PY) -m pullcord demo

check: setup ## Lint, formatting and strict types over src, tests, examples, bench, models and web
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/basedpyright --level error
	npm --prefix web run --silent check

test: check ## check + the tests, with a seeded sample of every campaign
	npm --prefix web test --silent
	$(PYTEST) -n 3 --dist loadgroup

soak: setup ## The campaigns in full: every crash point, a million schedules, every byte of the WAL
	PULLCORD_CAMPAIGN=full $(PYTEST) -n 2 --dist loadgroup -m campaign -p no:randomly --timeout 7200 -rA

bench: setup ## Ratios against the bare limit, in one run
	$(PY) -m bench

compare: setup ## Ten interrupts, side by side with other frameworks (needs PyPI); writes docs/compare.md
	$(PY) -m compare

lock: ## Refresh requirements/*.txt from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --group build --universal --python-version 3.11 --generate-hashes --no-header -q --upgrade -o requirements/runtime.txt
	uv pip compile pyproject.toml --extra pydantic-ai --universal --python-version 3.11 --generate-hashes --no-header -q --upgrade -o requirements/demo.txt
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-header -q --upgrade -o requirements/dev.txt

clean: ## Remove what setup made
	rm -rf $(VENV) $(STAMPS) $(MCP)/node_modules web/node_modules .screens
