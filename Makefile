# Every command sets up what it needs first; a second setup takes about a second.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# The lock was made with 3.11; newer ones work too.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
ALL_BENCHES := $(basename $(notdir $(wildcard bench/*.py)))
TRAINER_BENCHES := $(filter ddp_speed llm_speed checkpoint_stall resume_start to_hf_memory, \
	$(ALL_BENCHES))
# backends, many_runs and recovery have commands of their own. plain_* and llm_jobs are what the
# others compare with or run; llm_gpu needs a GPU; foreign_kills takes a quarter of an hour,
# false_losses an hour, and console needs Chromium.
BENCHES := $(filter-out __init__ figures recovery backends many_runs plain_% llm_jobs llm_gpu \
	foreign_kills false_losses console \
	$(TRAINER_BENCHES), \
	$(ALL_BENCHES))

.PHONY: help setup setup-trainers demo demo-slack story test test-unit test-machines machine-image \
	test-parallelcluster test-conformance test-first-light test-long test-often check lint-openapi \
	docs bench \
	bench-recovery bench-backends bench-many bench-trainers wheels lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 26

setup: ## virtual environment, locked packages, Slurm
	@if [ -z "$(PYTHON)" ]; then \
		echo "setup: Python 3.11 or newer is needed and none was found;" \
			"on Debian 12 or Ubuntu: sudo apt-get install -y python3 python3-venv" >&2; \
		exit 1; fi
	@$(PYTHON) scripts/setup.py

setup-trainers: setup ## besides, what the tests and measurements of the trainers need
	@$(PYTHON) scripts/setup.py trainers

demo: setup ## the main job on real parts, with a node killed in the middle
	@$(BIN)/python -m demo

demo-slack: setup ## the same story in a channel of a local Slack, printed as text
	@$(BIN)/python -m demo.in_slack

story: setup-trainers ## one run from Slack to its bill, with Chromium; records build/story
	@$(BIN)/python -m demo.one_story

# Tests of real nodes wait most of the time, so files run beside each other; those that wait the
# longest begin first.
BESIDE := -n $(or $(WORKERS),3) --dist loadfile --no-loadscope-reorder
test: setup-trainers ## all tests but those of test-*, three files at once (WORKERS=...)
	@$(BIN)/python -m pytest $(BESIDE) tests/local tests \
		-m "not machines and not parallelcluster and not conformance and not first_light and not long"

# What .ci/run has no time for: other ways to the same end, and whole stories of minutes.
test-long: node_agent/packages/pip.whl machine-image setup-trainers
test-long: ## more of the stories that `make test` and `make test-machines` tell; root
	@$(BIN)/python -m pytest $(BESIDE) -m long tests

test-unit: setup-trainers ## the pure tests, in less than a minute: no process, no server, no Slurm
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not real" tests/unit

test-machines: node_agent/packages/pip.whl machine-image setup-trainers
test-machines: ## tests on nodes that boot: root, systemd-container, debootstrap, nftables
	@$(BIN)/python -m pytest $(BESIDE) -m "not first_light and not long" tests/machines

# Built before the tests and not within the first one's time: once, in some minutes.
machine-image: setup
	@$(BIN)/python -c \
		"from trainyard_local.machines import cloud, host; host.missing() or cloud.image(print)"

test-parallelcluster: setup ## our requests to AWS ParallelCluster, judged by its own API on moto
	@$(PYTHON) scripts/setup.py parallelcluster
	@$(BIN)/python -m pytest tests/parallelcluster

test-conformance: setup-trainers ## the same stories on every backend (WORKERS=..., TIMES=...)
	@if [ $(or $(TIMES),1) -gt 1 ]; then PYTEST_ADDOPTS="$(BESIDE) -rs" $(BIN)/python \
		scripts/often.py --times $(TIMES) tests/conformance; \
	else $(BIN)/python -m pytest $(BESIDE) -rs tests/conformance; fi

# What nodes that boot need of the package index, as `sam build` puts it into the bundle; this file
# is written last.
node_agent/packages/pip.whl: node_agent/packages.txt node_agent/build_packages.py | setup
	@$(BIN)/python node_agent/build_packages.py node_agent/packages

test-first-light: node_agent/packages/pip.whl machine-image setup-trainers
test-first-light: ## first-light in trouble, and each assumption about AWS broken
	@$(BIN)/python -m pytest $(BESIDE) -m first_light tests/local/system tests/machines

test-often: setup-trainers ## real processes 20 times: what failed how often (TESTS=, TIMES=, BUSY=)
	@PYTEST_ADDOPTS="$(BESIDE) $(if $(TESTS),,-m 'not long and not first_light')" \
		$(BIN)/python scripts/often.py --times $(or $(TIMES),20) \
		--busy $(or $(BUSY),0) $(TESTS)

check: setup ## format, lint, types, import rules, generated files, SAM and ASL
	@$(BIN)/python scripts/check.py

docs: ## the pages as a site with a search, in build/docs/site; links and anchors are checked
	@if [ -z "$(PYTHON)" ]; then echo "docs: Python 3.11 or newer is needed" >&2; exit 1; fi
	@$(PYTHON) scripts/setup.py docs
	@.venv-docs/bin/python scripts/docs.py

lint-openapi: setup ## docs/openapi.json judged by redocly and spectral, which npm installs
	@$(BIN)/python scripts/lint_openapi.py

bench: setup ## every measurement in bench/ but those of recovery and of the trainers
	@for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m bench.$$name || exit 1; done

bench-recovery: node_agent/packages/pip.whl machine-image
bench-recovery: setup ## many faults, one after another; writes build/bench/recovery.json
	@$(BIN)/python -m bench.recovery

bench-backends: setup-trainers ## a fault to the next new step on each backend, in rounds
	@$(BIN)/python -m bench.backends

bench-many: setup ## 200 runs of an array beside 40 others; writes build/bench/many_runs.json
	@$(BIN)/python -m bench.many_runs

bench-trainers: setup-trainers ## the trainers against their peers; writes JSON under build/bench/
	@for name in $(TRAINER_BENCHES); do echo "== $$name"; $(BIN)/python -m bench.$$name || exit 1; done

wheels: setup ## the wheels that users install, into dist/
	@$(BIN)/python scripts/wheels.py

lock: setup ## new versions into requirements/*.txt
	@$(BIN)/python scripts/lock.py

clean: ## remove what the commands above made (not .venv)
	@if [ -x $(BIN)/trainyard ] && [ -d .trainyard ]; then $(BIN)/trainyard local down --yes; fi
	@rm -rf build .aws-sam .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
