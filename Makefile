# Everything a person does with this checkout. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/complete

##@ Run
.PHONY: up demo down status logs doctor service service-remove compose-up compose-demo compose-down
up: ## Start the stack on this machine, and install what is missing into the checkout
	@$(PYTHON) -m deploy.stack up
demo: ## Start simulated hosts instead of the stack, with a day of history
	@$(PYTHON) -m deploy.stack demo
down: ## Stop the stack or the demo; the stack's data is kept
	@$(PYTHON) -m deploy.stack down
status: ## Show what runs and whether its targets are up
	@$(PYTHON) -m deploy.stack status
logs: ## Show recent log lines; NAME=prometheus for one part, FOLLOW=1 to follow
	@$(PYTHON) -m deploy.stack logs $(if $(FOLLOW),--follow) $(NAME)
doctor: ## Check a Prometheus that runs elsewhere: PROMETHEUS=http://HOST:9090, GRAFANA=http://HOST:3000
	@$(PYTHON) -m deploy.doctor $(PROMETHEUS) $(if $(GRAFANA),--grafana $(GRAFANA))
service: ## Start the stack now and at each boot, by a systemd unit
	@$(PYTHON) -m deploy.service install
service-remove: ## Stop it, and remove the unit
	@$(PYTHON) -m deploy.service remove

compose-up: ## The same stack on Docker, Grafana included
	@$(PYTHON) -m deploy.compose up
compose-demo: ## The same demo on Docker
	@$(PYTHON) -m deploy.compose demo
compose-down: ## Stop the stack or the demo on Docker; volumes are kept
	@$(PYTHON) -m deploy.compose down

##@ Fleet
.PHONY: fleet fleet-down fleet-status fleet-files fleet-test
fleet: $(READY) ## Start a small fleet on this machine: pairs of Prometheus, Thanos, Alertmanagers (deploy/fleet/fleet.yml)
	@$(BIN)/python -m deploy.fleet up
fleet-down: $(READY) ## Stop it; its data is kept
	@$(BIN)/python -m deploy.fleet down
fleet-status: $(READY) ## Show its parts, and how many hosts each Prometheus scrapes
	@$(BIN)/python -m deploy.fleet status
fleet-files: $(READY) ## Write compose.fleet.yaml from the same parts, and the files that it has in .stack/fleet
	@$(BIN)/python -m deploy.fleet compose
fleet-test: $(READY) ## Prove that a fleet answers as one Prometheus would, and loses nothing when parts die: 40 minutes
	@$(BIN)/python -m tests.proofs.fleet

##@ Experiment
.PHONY: lab
lab: ## Run an experiment: SCENARIO=smoke (3 minutes), scale, intensity, placement, neighbour, allocation(-short), controller, factors(-short), suites, network or a file
	@$(PYTHON) -m deploy.lab run $(if $(NEW),--new) $(if $(DRY_RUN),--dry-run) "$(or $(SCENARIO),smoke)"

##@ Test
.PHONY: test test-system test-all lint lint-now types test-programs test-quick
.PHONY: test-system-programs test-system-beside test-system-alone fuzz soak faults truth placements mutants mutants-listed bench bench-rules
.NOTPARALLEL: # parts measure, and a later one needs what an earlier one built
# Tests wait more than they compute. By files, in the order of their names: the short ones of tests/unit come last, and
# no process is left with a few long ones.
PROCESSES ?= $(shell nproc | awk '{print 2 * ($$1 < 8 ? $$1 : 8)}')
BESIDE := --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder --durations 20
# These measure, emulate a machine, or share the one Docker engine, for which files side by side would wait.
ALONE := $(wildcard tests/compose tests/lab/test_clients.py tests/lab/test_limits.py tests/kvm tests/perf tests/xen)
SYSTEM := -m "system and not long" --reruns 1
# $(call timed,NAME,COMMAND) adds the seconds that a command took to $(TIMES); .ci/run prints that file.
TIMES ?= /dev/null
timed = @began=$$SECONDS; $(2); code=$$?; printf '%5d s  %s\n' $$((SECONDS - began)) "$(1)" >> $(TIMES); exit $$code

test: lint types test-programs test-quick ## Lint, types, and the tests that need no root, Docker or QEMU: 7 minutes on two CPUs
test-system: test-system-programs test-system-beside test-system-alone ## A Xen, a KVM host, Docker, packages, ssh, push, the lab: 22 minutes on two CPUs; as root
test-all: $(READY) ## What takes hours: all parts, one after the other, or PART=NAME
	@for part in $(or $(PART),$(PARTS)); do $(MAKE) --no-print-directory part-$$part || exit; done
lint: $(READY) ## Check format, code, layers, spelling and wording
	$(call timed,lint,$(MAKE) --no-print-directory lint-now)
lint-now:
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	PYTHONPATH=exporters $(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/codespell
	$(BIN)/python -m tools.wording
	$(BIN)/vermin --quiet --no-tips --target=3.9- --violations --eval-annotations exporters/virtscope
types: $(READY) ## mypy --strict over everything
	$(call timed,types,$(BIN)/mypy)
test-programs: $(READY)
	$(call timed,programs built for make test,$(BIN)/python -m deploy.go_programs quick)
test-quick: $(READY)
	$(call timed,make test's tests,$(BIN)/pytest -m "not system and not long" $(BESIDE))
test-system-programs: $(READY)
	$(call timed,programs built for make test-system,$(BIN)/python -m deploy.go_programs system)
test-system-beside: $(READY)
	$(call timed,system tests side by side,$(BIN)/pytest $(SYSTEM) --retries-log .stack/retries-beside.log $(BESIDE) $(ALONE:%=--ignore=%))
test-system-alone: $(READY)
	$(call timed,system tests alone,$(BIN)/pytest $(SYSTEM) --retries-log .stack/retries-alone.log --durations 10 $(ALONE))
fuzz: $(READY) ## Fuzz every parser and server on all CPUs for FUZZ_MINUTES (10), and save inputs that fail
	FUZZ_MINUTES=$${FUZZ_MINUTES:-10} $(BIN)/pytest tests/fuzz --numprocesses $(shell nproc)
soak: $(READY) ## Run the stack for HOURS (2) with 300 guests that come and go, and show what grows
	HOURS=$${HOURS:-2} $(BIN)/python -m tests.proofs.soak
faults: $(READY) ## As root, hurt a running stack in some forty ways for a quarter of an hour, and print what each did; ONLY=REGEX
	$(BIN)/python -m tests.proofs.faults $(if $(ONLY),--only '$(ONLY)')
truth: $(READY) ## As root, inject neighbours for two hours and a half and compare who is named; SEED=1 RESOURCE=disk EPISODES=20 COMPARE=1
	$(BIN)/python -m tests.proofs.truth \
		$(if $(SEED),--seed $(SEED)) $(if $(RESOURCE),--resource $(RESOURCE)) $(if $(EPISODES),--episodes $(EPISODES)) $(if $(COMPARE),--compare)
placements: $(READY) ## As root, move sites between two parts of this machine for two hours and a half, and compare predictions; SEED=1 MOVES=10
	$(BIN)/python -m tests.proofs.placements $(if $(SEED),--seed $(SEED)) $(if $(MOVES),--moves $(MOVES))
mutants: $(READY) ## Change FILES="PATH ..." in small ways, and show the changes that TESTS="PATH ..." don't notice
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/mutants.txt
	$(BIN)/python -m tools.mutants.generated $(FILES) --tests $(TESTS)
mutants-listed: $(READY) ## Make the mistakes listed in tools/mutants/listed.yml, and show those that no test notices; ONLY=REGEX
	$(BIN)/python -m tools.mutants.listed $(if $(ONLY),--only '$(ONLY)')
bench: $(READY) ## Measure encoding and scrapes of 10 to 1,000 guests, and other exporters for comparison
	$(BIN)/python -m tests.proofs.bench
bench-rules: $(READY) ## Measure the rules for FLEET_HOSTS (1,000) hosts of 50 virtual servers, for 20 minutes
	$(BIN)/python -m tests.proofs.bench.rules

##@ Parts of make test-all
PARTS := folders xen kvm kernels kubernetes distributions packages lab fleet faults truth placements mutants fuzz soak
.PHONY: $(PARTS:%=part-%)
OWN_PARTS := xen kvm kernels kubernetes distributions packages lab fleet faults truth
LONG := $(BIN)/pytest -m long --durations 5
part-folders: $(READY) ## The long tests of all other folders: half an hour
	$(LONG) tests $(OWN_PARTS:%=--ignore=tests/%)
part-xen: $(READY) ## A second scheduler, churn, traces and systemd on emulated Xen hosts: an hour
	$(LONG) tests/xen
part-kvm: $(READY) ## An emulated KVM host with libvirt: a quarter of an hour
	$(LONG) tests/kvm
part-kernels: $(READY) ## sched-exporter on Debian's kernels, cgroups v1 too: half an hour
	$(LONG) tests/kernels
part-kubernetes: $(READY) ## The chart on real kubelets, cgroups v1 and v2, and API server: half an hour, and as long to build them
	$(LONG) tests/kubernetes
part-distributions: $(READY) ## The stack from packages of other releases of Debian and Ubuntu: half an hour
	$(LONG) tests/distributions
part-packages: $(READY) ## deb packages, wheel, Ansible and services on other releases: 40 minutes
	$(LONG) tests/packages
part-lab: $(READY) ## Every study of the lab, short: half an hour
	$(LONG) tests/lab
part-fleet: fleet-test ## make fleet-test: 40 minutes
part-faults: faults ## make faults: a quarter of an hour
part-truth: truth ## make truth: two hours and a half
part-placements: placements ## make placements: two hours and a half
part-mutants: mutants-listed ## make mutants-listed: six minutes
part-fuzz: fuzz ## make fuzz: FUZZ_MINUTES (10)
part-soak: soak ## make soak: HOURS (2)

##@ Package
.PHONY: release version deb bundle wheel sbom
release: $(READY) ## Write what a release consists of into dist/virtscope-VERSION/; KEY=ID of your GnuPG signs it
	@$(BIN)/python -m deploy.packages.release $(if $(KEY),--key "$(KEY)") dist
version: ## Set the version in all files that have it: VERSION=0.2.0
	@$(PYTHON) -m deploy.packages.version $(VERSION)
deb: ## Build Debian packages of the exporters into dist/, for Debian 12 and Ubuntu 22.04 or newer
	@$(PYTHON) -m deploy.packages.deb dist
bundle: $(READY) ## Build an archive with a Python of its own into dist/, for older Linux; ARCH=arm64, CPYTHON=FOLDER
	@$(BIN)/python -m deploy.packages.bundle $(if $(ARCH),--architecture "$(ARCH)") $(if $(CPYTHON),--python "$(CPYTHON)") dist
wheel: $(READY) ## Build the exporters' wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist exporters
	$(BIN)/twine check --strict dist/virtscope-*.whl
sbom: $(READY) ## Write what the packages and the wheel depend on into dist/, as CycloneDX
	$(BIN)/python -m deploy.packages.sbom dist

##@ Develop
.PHONY: format rules dashboards docs bpf mixin chart manifests golden requirements licences tools-update clean
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
chart: $(READY) ## Write the Helm chart into dist/chart/; CONFIG=FILE for the mixin's settings
	$(BIN)/python -m tools.chart $(if $(CONFIG),--config $(CONFIG)) dist/chart
manifests: $(READY) ## Write the chart as plain manifests into dist/kubernetes.yaml; VALUES=FILE for the chart's settings
	$(BIN)/python -m tools.chart $(if $(CONFIG),--config $(CONFIG)) --manifests dist/kubernetes.yaml \
	  $(if $(VALUES),--values $(VALUES)) dist/chart
requirements: ## Pin the current Python dependencies (needs uv)
	cd requirements && for set in exporters:3.9 stack:3.11 lab:3.11 dev:3.11 go:3.11 mutants:3.11; do \
	  uv pip compile --quiet --universal --generate-hashes --upgrade --no-emit-index-url --no-emit-find-links --no-header \
	    --python-version $${set#*:} $${set%:*}.in --output-file $${set%:*}.txt || exit; done
licences: $(READY) ## List the licences of all pinned Python packages, after a change to them
	$(BIN)/python -m deploy.packages.licences
tools-update: ## Look for the programs again: releases whose sites answer now, and newer packages
	$(PYTHON) -m deploy.programs --update
clean: ## Remove the development environment and test caches; the stack's data is kept
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {sub("^part-", "PART=", $$1); printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt
	@echo "Installing Python packages into $(VENV), once: 440 MB, some minutes"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	@touch $@
