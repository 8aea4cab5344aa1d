# SPDX-License-Identifier: GPL-3.0-or-later
# `make demo` and `make test` do all the set-up they need. README.md lists the targets with their
# durations.

SHELL := /bin/bash
.DEFAULT_GOAL := help
BUILD := $(CURDIR)/build
RIG := .venv/bin/rig
PYTEST := .venv/bin/python -m pytest
PAGE := rig/dashboard/static/js/main.js
PAGE_SOURCES := $(shell find rig/dashboard/page -name '*.ts' -not -path '*/generated/*') rig/dashboard/package-lock.json analysis/results/schema.py tools/page.py
SOURCES := $(wildcard $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.go' '*.f' 'go.*' '*/Makefile' 2>/dev/null))

.PHONY: help setup build images influxdb demo check test test-all down clean docs tap-for-qemu
.PHONY: test-attacks test-c test-clock test-go test-python test-lab test-energy test-arrays test-hosts test-kernels test-kills test-long-load test-nvme test-slow-motion test-workloads test-powercut test-powercut-applications test-powercut-guest
.PHONY: studies lint bench-agent bench-analysis bench-beyond bench-campaign bench-dashboard bench-faults bench-power bench-drives bench-lease bench-nvme bench-plan bench-racing bench-between bench-slow-motion bench-trust bench-workloads test-soak fuzz-workloads bench-coefficients bench-audit

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: ## Everything both commands need: packages, Python environment, programs, web parts (idempotent)
	@tools/setup
	@$(MAKE) --no-print-directory build

build: $(BUILD)/.stamp $(PAGE) ## Compile the C and Go parts, bundle the dashboard's page
	@:

images: ## Build the virtual lab's guest images, where they are not yet
	@$(RIG) lab images

influxdb: ## Compile InfluxDB 1.13, which the rig then runs instead of Debian's 1.6
	@tools/influxdb/build $(BUILD)/influxd

$(BUILD)/.stamp: $(SOURCES)
	@echo "compiling the C and Go parts"
	@mkdir -p $(BUILD)
	@$(MAKE) -s --no-print-directory -C virtuallab/clock all BUILD=$(BUILD)
	@$(MAKE) -s --no-print-directory -C virtuallab/twin all BUILD=$(BUILD)
	@$(MAKE) -s --no-print-directory -C firmware/power_tap all BUILD=$(BUILD)
	@$(MAKE) -s --no-print-directory -C collectors/srcap all BUILD=$(BUILD)
	@CGO_ENABLED=1 tools/go build -ldflags "-s -w" -o $(BUILD)/ ./collectors/powerd
	@tools/go build -ldflags "-s -w" -o $(BUILD)/ ./collectors/iod ./workloads/durawriter ./workloads/flowop
	@touch $@

$(PAGE): $(PAGE_SOURCES)
	@echo "bundling the dashboard's page"
	@.venv/bin/python -m tools.page

demo: ## Set-up, then a campaign on the virtual lab: AI table, report, live dashboard
	@tools/setup
	@$(MAKE) --no-print-directory -j 2 build images
	@$(RIG) up
	@$(RIG) run playbooks/demo.yml
	@$(RIG) report
	@$(RIG) status | grep '^dashboard:'

down: ## End what `make demo` started
	@if [ -x $(RIG) ]; then $(RIG) down; else echo "nothing was set up"; fi

# Both print a table of what ran, with times and counts. `python -m tools.suites --list` prints each
# suite's commands.
SUITES := .venv/bin/python -m tools.suites

check: setup ## Style, types and unit tests: what to run before each commit
	@$(SUITES) check

test: setup tap-for-qemu ## Set-up, then every test that takes no longer than seconds, and a campaign on a virtual lab
	@$(SUITES) test

test-all: setup tap-for-qemu ## Set-up, then those of make test and all that have no target for themselves
	@$(SUITES) test-all

lint: ## Style, types and static checks alone
	@$(SUITES) lint

tap-for-qemu:
	@$(MAKE) -s --no-print-directory -C firmware/power_tap lm3s6965 BUILD=$(BUILD)

test-c: build ## C unit tests, under sanitizers
	@$(SUITES) c

test-go: ## Go tests
	@$(SUITES) go

test-python: build tap-for-qemu ## Python tests: units, real servers, and a campaign on a virtual lab
	@$(SUITES) python

test-clock: build ## Whether powerd keeps time to 100 us with all processors busy, on a machine that does nothing else
	$(PYTEST) tests/integration/collectors/test_clock_under_load.py

test-lab: build ## Every test on the virtual lab that has no target for itself: those of make test-all, and those that take minutes
	JOULERIG_WHOLE_LAB=1 $(PYTEST) tests/lab

test-energy: build ## Twenty runs on a virtual lab, measured against the truth
	JOULERIG_ENERGY_RUNS=20 $(PYTEST) tests/lab/test_energy_on_the_virtual_lab.py

test-arrays: build ## Drives of memory, external journals, arrays, emulated disks, and drives side by side, on a virtual lab
	JOULERIG_ARRAYS=1 $(PYTEST) tests/lab/test_arrays_and_memory_on_the_virtual_lab.py tests/lab/test_stacks_on_the_virtual_lab.py tests/lab/test_side_by_side_on_the_virtual_lab.py

test-hosts: build ## Virtual hosts of Debian 11, 12, 13 and unstable: provisioned, measured, released: results/bench/hosts.json
	.venv/bin/python -m tests.bench.host_library
	.venv/bin/python -m tests.bench.hosts

test-release: ## A release of a Debian whose owner made a database with the rig's PostgreSQL (needs root)
	JOULERIG_RELEASE=1 $(PYTEST) tests/integration/ansible/test_release_on_debian.py

test-kernels: build ## A campaign over two kernels on a virtual lab, one of which first comes up without a network
	JOULERIG_KERNELS=1 $(PYTEST) tests/lab/test_kernels_on_the_virtual_lab.py

test-attacks: build ## Every situation in which a drive must not be wiped, with each record that a host can have of it (needs root)
	JOULERIG_ATTACKS=1 $(PYTEST) tests/integration/ansible/test_hostile_drives.py

test-kills: build ## A hundred kills, at random moments, of all that can die: results/bench/durability.json
	JOULERIG_KILLS=100 $(PYTEST) tests/lab/test_kills_on_the_virtual_lab.py

test-slow-motion: build ## Whether slow motion changes what depends on time and nothing else, on a virtual lab
	JOULERIG_SLOW_MOTION=1 $(PYTEST) tests/lab/test_slow_motion_on_the_virtual_lab.py

test-long-load: build ## A load of half an hour that outlives its controller, ten minutes without network, and a reboot
	JOULERIG_LOAD_SECONDS=1800 $(PYTEST) tests/lab/test_kills_on_the_virtual_lab.py -k long_load

test-workloads: build ## Preconditioning, and external programs as workloads, on a virtual lab
	JOULERIG_WORKLOADS=1 $(PYTEST) tests/lab/test_precondition_on_the_virtual_lab.py tests/lab/test_programs_on_the_virtual_lab.py

test-nvme: build ## Drives that are NVMe controllers for the kernel of their host, and drives of nvmet, on virtual labs
	JOULERIG_NVME=1 $(PYTEST) tests/lab/test_nvme_controllers_on_the_virtual_lab.py tests/lab/test_nvmet_drives_on_the_virtual_lab.py

test-powercut: build ## Power cuts at the drives' own interface: 100 over all profiles, and 50 of drives that lie
	JOULERIG_POWER_CUTS=20 $(PYTEST) tests/integration/virtuallab/test_power_cuts_of_twins.py

test-powercut-applications: build ## Power cuts of a twin under applications on this kernel's ext4, 100 of each (needs root)
	JOULERIG_APPLICATION_CUTS=100 $(PYTEST) -rP tests/integration/virtuallab/test_application_cuts.py

test-powercut-guest: build ## Power cuts of a whole virtual test host, its drives and their file systems
	JOULERIG_POWER_CUTS=10 $(PYTEST) tests/lab/test_power_cuts_on_the_virtual_lab.py

studies: build ## The short forms of the published studies on a virtual lab, their claims judged: results/bench/studies.json
	.venv/bin/python -m tests.bench.studies

bench-agent: build ## What the host agent costs: results/bench/agent.json
	.venv/bin/python -m tests.bench.bench_agent

bench-power: build ## What the power path costs at 4 x 1 MS/s: results/bench/power.json
	.venv/bin/python -m tests.bench.bench_power

bench-analysis: ## Time and memory of the analysis at scale, compared with pandas: results/bench/analysis.json
	.venv/bin/python -m tests.bench.bench_analysis

bench-beyond: build ## Each feature beyond measuring, once on a virtual lab: results/bench/beyond.json
	.venv/bin/python -m tests.bench.beyond

bench-campaign: build ## Fifty test hosts at once over SSH, and what a run takes outside its phases: results/bench/campaign.json
	.venv/bin/python -m tests.bench.bench_campaign

bench-coefficients: ## How often a twin's own parameters lie in its coefficients' intervals: results/bench/coefficients.json
	.venv/bin/python -m tests.bench.coefficients

bench-dashboard: build ## From a sample to a pixel, long tasks, viewers: results/bench/dashboard.json
	.venv/bin/python -m tests.bench.bench_dashboard

bench-drives: build ## Whether an NBD client sees each drive profile's figures: results/bench/drives.json
	.venv/bin/python -m tests.bench.bench_drives

bench-faults: ## Plant faults that engineers make, one at a time, and name the test that catches each: results/bench/faults.json
	.venv/bin/python -m tests.bench.faults

bench-lease: ## What a wipe lease costs a run on a host with many disks and processes: results/bench/lease.json
	.venv/bin/python -m tests.bench.bench_lease

bench-nvme: build ## What it costs a host that its drive is an NVMe controller: results/bench/nvme.json
	.venv/bin/python -m tests.bench.bench_nvme

bench-audit: ## How often drives that report their power are judged rightly, simulated: results/bench/audit.json
	.venv/bin/python -m tests.bench.bench_audit

bench-plan: ## Time of rig plan and of the journal for a campaign of 100,000 runs: results/bench/plan.json
	.venv/bin/python -m tests.bench.bench_plan

bench-racing: ## How many runs a race needs, and how often it is right, simulated: results/bench/racing.json
	.venv/bin/python -m tests.bench.racing

bench-between: ## How often a gate, a series and a bisection name what is not so, simulated: a part of results/bench/trust.json
	.venv/bin/python -m tests.bench.between

bench-slow-motion: build ## Whether AI in slow motion depends on what else the machine does: results/bench/slow_motion.json
	.venv/bin/python -m tests.bench.bench_slow_motion

bench-trust: build ## How often intervals, comparisons and bounds hold, and which planted faults are reported: results/bench/trust.json
	.venv/bin/python -m tests.bench.bench_trust

bench-workloads: build ## What the workload engine costs an operation, and how it scales: results/bench/workloads.json
	.venv/bin/python -m tests.bench.bench_workloads

test-soak: ## Ten minutes of varmail in memory: nothing that the engine holds grows
	JOULERIG_SOAK_SECONDS=600 tools/go test -count=1 -v -timeout 20m -run '^TestSoak$$' ./workloads/internal/engine

FUZZ_SECONDS ?= 600
fuzz-workloads: ## The reader of the workload language under Go's fuzzer, for FUZZ_SECONDS
	tools/go test -run='^$$' -fuzz=FuzzParse -fuzztime=$(FUZZ_SECONDS)s -fuzzminimizetime=100x ./workloads/internal/wml

docs: ## The documentation site, readable without a network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --clean
	@echo "build/site/index.html; with search: python3 -m http.server --directory build/site"

clean: ## Remove what was compiled
	rm -rf $(BUILD) $(dir $(PAGE))
