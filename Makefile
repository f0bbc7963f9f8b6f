# Everything a person does with this checkout. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/complete

##@ Run
.PHONY: up demo down status logs compose-up compose-demo compose-down
up: ## Start the stack on this machine, and install what is missing into the checkout
	@$(PYTHON) -m tools.stack up
demo: ## Start simulated hosts instead of the stack, with a day of history
	@$(PYTHON) -m tools.stack demo
down: ## Stop the stack or the demo; the stack's data is kept
	@$(PYTHON) -m tools.stack down
status: ## Show what runs and whether its targets are up
	@$(PYTHON) -m tools.stack status
logs: ## Show recent log lines; NAME=prometheus for one part, FOLLOW=1 to follow
	@$(PYTHON) -m tools.stack logs $(if $(FOLLOW),--follow) $(NAME)

compose-up: ## The same stack on Docker, Grafana included
	@$(PYTHON) -m tools.compose up
compose-demo: ## The same demo on Docker
	@$(PYTHON) -m tools.compose demo
compose-down: ## Stop the stack or the demo on Docker; volumes are kept
	@$(PYTHON) -m tools.compose down

##@ Fleet
.PHONY: fleet fleet-down fleet-status fleet-files fleet-test
fleet: $(READY) ## Start a small fleet on this machine: pairs of Prometheus, Thanos, Alertmanagers (fleet/fleet.yml)
	@$(BIN)/python -m fleet up
fleet-down: $(READY) ## Stop it; its data is kept
	@$(BIN)/python -m fleet down
fleet-status: $(READY) ## Show its parts, and how many hosts each Prometheus scrapes
	@$(BIN)/python -m fleet status
fleet-files: $(READY) ## Write compose.fleet.yaml from the same parts, and the files that it has in .stack/fleet
	@$(BIN)/python -m fleet compose
fleet-test: $(READY) ## Prove that a fleet answers as one Prometheus would, and loses nothing when parts die: 40 minutes
	@$(BIN)/python -m fleet.proof

##@ Experiment
.PHONY: lab
lab: ## Run an experiment: SCENARIO=smoke (3 minutes), scale, intensity, placement, neighbour, allocation(-short), factors(-short), suites, network or a file
	@$(PYTHON) -m tools.lab run $(if $(NEW),--new) $(if $(DRY_RUN),--dry-run) "$(or $(SCENARIO),smoke)"

##@ Test
.PHONY: test test-system test-all lint types test-fast test-xen fuzz soak faults truth mutants bench bench-rules
# These measure, or emulate a machine, and run alone. The others mostly wait, and run in parallel: by files, in the order
# of their names, so that many short tests (tests/unit) are the last, and no process is left with a few long ones.
ALONE := tests/lab/test_clients.py tests/lab/test_limits.py tests/perf tests/kvm tests/xen
# Of the tests that take minutes, those that CI runs: a fixed list, so that every machine judges a change alike.
SYSTEM := tests/ssh tests/stack tests/e2e tests/mixin tests/compose tests/rules
test: lint types ## Lint, types, unit, rules, dashboards, end to end, a real Xen: half an hour, longer on a new machine
	$(BIN)/python -m tools.go_programs
	$(BIN)/pytest -m "not long" --numprocesses 6 --dist loadfile --no-loadscope-reorder --durations 20 $(ALONE:%=--ignore=%)
	$(BIN)/pytest -m "not long" --durations 10 $(ALONE)
test-system: $(READY) ## Tests that take minutes each and that CI runs as well: fleet, Docker, attacks, full disks, churn: half an hour
	for folder in $(SYSTEM); do $(BIN)/pytest -m long --durations 5 $$folder || exit; done
test-all: $(READY) ## All tests that take minutes each, for hours: also other schedulers, kernels, distributions, packages, faults, mutants
	for folder in $(sort $(dir $(wildcard tests/*/test_*.py))); do $(BIN)/pytest -m long $$folder || [ $$? = 5 ] || exit; done
lint: $(READY) ## Check format, code, layers, spelling and wording
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	PYTHONPATH=exporters $(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/codespell
	$(BIN)/python -m tools.wording
	$(BIN)/vermin --quiet --no-tips --target=3.9- --violations --eval-annotations exporters/virtscope
types: $(READY) ## mypy --strict over everything
	$(BIN)/mypy
test-fast: $(READY) ## The tests that need a minute: units, rules, dashboards
	$(BIN)/pytest -m "not long" tests/unit tests/rules tests/dashboards
test-xen: $(READY) ## Boot a real Xen under QEMU, with credit2 and credit, and test from the hypervisor to the alert
	$(BIN)/pytest tests/xen
fuzz: $(READY) ## Fuzz every parser and server on all CPUs for FUZZ_MINUTES (10), and save inputs that fail
	FUZZ_MINUTES=$${FUZZ_MINUTES:-10} $(BIN)/pytest tests/fuzz --timeout 0
soak: $(READY) ## Run the stack for HOURS (2) with 300 guests that come and go, and show what grows
	HOURS=$${HOURS:-2} $(BIN)/python -m soak
faults: $(READY) ## As root, hurt a running stack in some forty ways for a quarter of an hour, and print what each did; ONLY=REGEX
	$(BIN)/python -m faults $(if $(ONLY),--only '$(ONLY)')
truth: $(READY) ## As root, inject neighbours for an hour and compare who is named with who it was; SEED=1 EPISODES=108
	$(BIN)/python -m truth $(if $(SEED),--seed $(SEED)) $(if $(EPISODES),--episodes $(EPISODES))
mutants: $(READY) ## Change code and rules one line at a time, and show what no test notices; FILES="PATH ..." for all of these
	$(BIN)/python -m tools.mutants $(FILES)
bench: $(READY) ## Measure encoding and scrapes of 10 to 1,000 guests, and other exporters for comparison
	$(BIN)/python -m bench
bench-rules: $(READY) ## Measure the rules for FLEET_HOSTS (1,000) hosts of 50 virtual servers, for a quarter of an hour
	$(BIN)/python -m bench.rules

##@ Package
.PHONY: deb bundle wheel sbom
deb: ## Build Debian packages of the exporters into dist/, for Debian 12 and Ubuntu 22.04 or newer
	@$(PYTHON) -m tools.deb dist
bundle: $(READY) ## Build an archive with a Python of its own into dist/, for older Linux; ARCH=arm64, CPYTHON=FOLDER
	@$(BIN)/python -m tools.bundle $(if $(ARCH),--architecture "$(ARCH)") $(if $(CPYTHON),--python "$(CPYTHON)") dist
wheel: $(READY) ## Build the exporters' wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist exporters
	$(BIN)/twine check --strict dist/virtscope-*.whl
sbom: $(READY) ## Write what the packages and the wheel depend on into dist/, as CycloneDX
	$(BIN)/python -m tools.sbom dist

##@ Develop
.PHONY: format rules dashboards docs bpf mixin golden requirements licences tools-update clean
format: $(READY) ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
dashboards: $(READY) ## Write the dashboards' JSON from their Python sources
	$(BIN)/python -m dashboards.build
rules: $(READY) ## Write the rules of the applications' objectives and of their histograms (alerts/objectives/)
	$(BIN)/python -m alerts.generator.build
docs: $(READY) ## Write docs/metrics.md from the golden expositions, and the tables of docs/vocabulary.md
	$(BIN)/python -m tools.metric_reference
	$(BIN)/python -m tools.vocabulary_reference
	$(BIN)/python -m tools.push
bpf: $(READY) ## Compile sched-exporter's program for the kernel, with the clang that tests/packages.txt lists
	$(BIN)/python -m tools.bpf
golden: $(READY) ## Rewrite the golden expositions; review the diff before you commit it
	UPDATE_GOLDEN=1 $(BIN)/pytest tests/unit tests/e2e -k golden
mixin: $(READY) ## Write rules, alerts, dashboards and manifests for your own stack into dist/mixin/; CONFIG=FILE for settings
	$(BIN)/python -m tools.mixin $(if $(CONFIG),--config $(CONFIG)) dist/mixin
requirements: ## Pin the current Python dependencies (needs uv)
	cd requirements && for set in exporters:3.9 stack:3.11 lab:3.11 dev:3.11 go:3.11; do \
	  uv pip compile --quiet --universal --generate-hashes --upgrade --no-emit-index-url --no-emit-find-links --no-header \
	    --python-version $${set#*:} $${set%:*}.in --output-file $${set%:*}.txt || exit; done
licences: $(READY) ## List the licences of all pinned dependencies, after a change to them (downloads the sources of Go modules)
	$(BIN)/python -m tools.licences
tools-update: ## Look for the programs again: releases whose sites answer now, and newer packages
	$(PYTHON) -m tools.programs --update
clean: ## Remove the development environment and test caches; the stack's data is kept
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	@touch $@
