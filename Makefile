# The only commands to remember. `make help` lists them.
#
# Everything works from a fresh clone on Debian 12, as root or as a user with sudo, and is quick when run again:
# system packages are looked up before apt is called, the virtual environment follows pyproject.toml by a stamp.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TOOLS  := $(VENV)/tools

# Real VMs, packet drops and libvirt need root; everything else is happy without.
# In somebody's clone and home it leaves nothing that its owner could not remove: no cache files, and its own HOME.
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo -EH env PYTHONDONTWRITEBYTECODE=1)
PYTEST = $(BIN)/python -m pytest
ROOT_PYTEST = $(ROOT) $(if $(ROOT),HYPOTHESIS_STORAGE_DIRECTORY=$(ROOT_CACHE) )$(PYTEST) $(if $(ROOT),-p no:cacheprovider)

DEMO_STATE ?= /var/lib/copepod-demo
TEST_STATE ?= /var/lib/copepod-test
ROOT_CACHE := /var/cache/copepod-test
SEEDS ?= 50
SEED  ?= 1

QEMU_PACKAGE := $(if $(filter aarch64 arm64,$(shell uname -m)),qemu-system-arm,qemu-system-x86)
PACKAGES := python3 python3-venv python3-dev gcc pkg-config libvirt-dev \
	mosquitto nftables libvirt-daemon-system $(QEMU_PACKAGE) qemu-utils lz4 \
	postgresql-15

PACKAGE_DIRS := kubeapi metastore edgelink vmruntime edgecore cloudhub edgelab
TREES := $(PACKAGE_DIRS) tests bench

.PHONY: help setup tools demo test test-long check fmt lint type unit bench sim golden clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## install all that is needed (system packages, virtual environment)
	@scripts/system-packages $(PACKAGES)

$(STAMP): pyproject.toml
	@scripts/system-packages $(PACKAGES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Copepod needs Python 3.11 or newer; name one with make PYTHON=…" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

tools: $(STAMP)
	@$(BIN)/python scripts/client-tools $(BIN)/python $(TOOLS)

demo: setup  ## the main job on real VMs, narrated
	$(ROOT) $(BIN)/copepod demo --state $(DEMO_STATE)

test: setup tools lint type  ## everything: lint, types and the whole test suite
	@mkdir -p build
	@echo "beside these: the tests with guests, then tests/unit and tests/simulation (build/beside.log)"
	@export COPEPOD_TEST_STATE=$(TEST_STATE); \
	{ $(ROOT_PYTEST) -m 'vm and not long' tests/contract tests/integration; guests=$$?; \
	  $(ROOT_PYTEST) -q -m 'not vm and not long' tests/unit tests/simulation && exit $$guests; } >build/beside.log 2>&1 & beside=$$!; \
	trap 'kill $$beside' INT TERM; \
	$(ROOT_PYTEST) -m 'not vm and not long' tests/contract tests/integration; here=$$?; \
	echo "waiting for what runs beside (build/beside.log)"; \
	wait $$beside; there=$$?; \
	if [ $$there = 0 ]; then grep -E '^(SKIPPED|=+ .* in )|^[0-9]+ passed' build/beside.log; else cat build/beside.log; fi; \
	exit $$((here || there))

test-long: setup tools  ## the long matrices and soaks as well
	COPEPOD_TEST_STATE=$(TEST_STATE) $(ROOT_PYTEST) --timeout 3600

check: setup lint type  ## the quick loop: lint, types, unit, contract without VMs, simulation
	$(PYTEST) -q -m 'not vm and not long' tests/unit tests/contract tests/simulation

fmt: $(STAMP)  ## format the code
	$(BIN)/ruff format $(TREES)
	$(BIN)/ruff check --fix-only $(TREES)

lint: $(STAMP)  ## style, and the arrows between packages
	$(BIN)/ruff check $(TREES)
	$(BIN)/ruff format --check $(TREES)
	$(BIN)/lint-imports

type: $(STAMP)  ## strict types
	$(BIN)/mypy

bench: setup  ## measure, beside a peer: a table, and build/bench.json
	@mkdir -p build
	COPEPOD_TEST_STATE=$(TEST_STATE) $(ROOT) $(BIN)/python -m bench
	@$(if $(ROOT),$(ROOT) chown --reference=build build/bench.json)

sim: setup  ## the simulator: make sim SEEDS=10000 SEED=1
	SEEDS=$(SEEDS) SEED=$(SEED) $(PYTEST) -q tests/simulation

golden: setup  ## write the domain XML's golden files anew; review the difference (the wire's are frozen)
	$(PYTEST) -q tests/unit/vmruntime --update-golden

clean:  ## remove what demo and tests made (VMs, taps, processes, cgroups, state); never an installed node's
	@if [ -x $(BIN)/copepod ]; then \
		for state in $(DEMO_STATE) $(TEST_STATE)/*; do \
			[ ! -e "$$state" ] || $(ROOT) $(BIN)/copepod clean --state "$$state" || exit 1; \
		done; \
		for installation in copepod-test copepod-bench; do \
			[ ! -S /run/libvirt/libvirt-sock ] || \
				$(ROOT) $(BIN)/copepod clean --installation $$installation || exit 1; \
		done; \
	fi
	@[ ! -e $(ROOT_CACHE) ] || $(ROOT) rm -rf $(ROOT_CACHE)
	rm -rf build
