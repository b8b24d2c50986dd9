# Two commands do everything: `make demo` and `make test`. Each sets up .venv first, from the lock file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STARTED := $(shell date +%s)
# Without compiled modules each part of the monitor, and each process of a test, compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=
DEMO_ARGS ?=
TESTS ?=
BENCH ?= all --json bench.json

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-images test-kubernetes lint generate bench clean

help:
	@echo "make setup     .venv, from requirements.lock"
	@echo "make demo      a real Kafka cluster, a story of failures, and the monitor on it (DEMO_ARGS=--fast | --keep | --kraft)"
	@echo "make test      the tests that answer soonest, on real servers (TESTS=\"tests/unit/kcm -x\": these, with pytest's options)"
	@echo "make test-all  all tests: what the marker \`full\` keeps out of make test as well"
	@echo "make test-images  both images and docker/compose.yaml, built and run by podman: twenty minutes at first, then five (as root)"
	@echo "make test-kubernetes  the chart on a real Kubernetes, whose programs it builds: forty minutes at first, then six (as root)"
	@echo "make lint      ruff, mypy, import contracts, words, generated files in step"
	@echo "make generate  dashboards, rules, reference pages, tables of Kafka's messages"
	@echo "make bench     all benchmarks, in one to three hours (BENCH=list, BENCH=delay, BENCH=\"all --compare OLD.json\")"
	@echo "make clean     remove what the other targets made in this folder"
	@echo "More, as python -m ... in .venv: tests.simulation, tests.faults, tests.mutation, tests.support.repeated, tools.coverage, tools.lock, tools.release, tools.sbom (CONTRIBUTING.md)"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: Python 3.11 or newer is missing ($(PYTHON)): install it, or say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1): say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: Python's venv module is missing: install it (Debian: python3-venv)"; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (about 450 MB of downloads, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/# via/p' requirements.lock > $(VENV)/uv.txt # pip takes hashes from requirements only
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip sync -q --require-hashes requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install -q --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	@$(BIN)/kcm demo $(DEMO_ARGS)

test test-all: setup
	@$(BIN)/python -m tools.run_tests $@ --since $(STARTED) $(TESTS)

test-images: setup
	@$(BIN)/python -m tests.images

test-kubernetes: setup
	@$(BIN)/python -m tests.kubernetes

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.words
	@$(BIN)/python -m dashboards --check
	@$(BIN)/python -m tools.docs --check

generate: setup
	@$(BIN)/python -m dashboards
	@$(BIN)/python -m tools.docs
	@$(BIN)/python -m tools.kraft

bench: setup
	@$(BIN)/python -m bench $(BENCH)

clean:
	rm -rf $(VENV) build dist sbom.cdx.json bench.json .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage mutants *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
