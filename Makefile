# Two commands do everything: `make demo` and `make test`. Each sets up .venv first, from the lock file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_ARGS ?=
BENCH ?= all --json bench.json
SEEDS ?= 0+300
FAULTS ?=
MINUTES ?= 60
TIMES ?= 20
TESTS ?=
# Three processes for two cores, since tests on servers wait for much of their time. Tests that share servers keep to one of
# them, by groups and in the order that tests/conftest.py gives.
PYTEST := $(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder
# What starts a JVM in each of its uses: servers, TLS, the fold, Kafka's own classes, the whole line with the story.
ON_NEWEST_JAVA := tests/component/servers/test_stack.py tests/component/watcher/test_watcher_tls.py \
	tests/component/fold/test_stream.py tests/component/fold/test_fixed_costs_of_the_jvm.py \
	tests/component/comparison/test_kafka_codecs.py tests/system/test_story.py

.DEFAULT_GOAL := help
.PHONY: help setup demo sbom test test-all repeat simulate faults soak coverage mutate lint format lock generate bench clean

help:
	@echo "make demo    a real Kafka cluster, a story of failures, and the monitor on it (DEMO_ARGS=--fast | --keep)"
	@echo "make test    the tests that answer soonest, on real servers: within ten minutes on two cores"
	@echo "make test-all  all tests, within half an hour: what the marker \`full\` keeps out of make test as well"
	@echo "make repeat  tests many times in a row beside two busy processes: finds those that depend on luck (TIMES=20 TESTS=tests/unit)"
	@echo "make simulate  the protocol under faults, seed by seed (SEEDS=FROM+COUNT, 0+300)"
	@echo "make faults  faults on real servers, each part in each way, in about half an hour (FAULTS=\"watcher: kill\"; docs/reliability.md)"
	@echo "make soak    a random story with random kills on real servers: memory, files, delay (MINUTES=60)"
	@echo "make coverage  every line and branch of the model, the simulator and the rehearsal, or a failure"
	@echo "make mutate  change the code of the model and of the edges in 5,000 places, in about an hour: fails on a change that the unit tests miss without a reason"
	@echo "make lint    ruff, mypy, import contracts, generated files in step"
	@echo "make bench   all benchmarks, in one to three hours (BENCH=list, BENCH=delay, BENCH=\"all --compare OLD.json\")"
	@echo "make sbom    what is installed here, as a bill of materials (CycloneDX): sbom.cdx.json"
	@echo "make clean   remove what the other targets made in this folder"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: Python 3.11 or newer is missing ($(PYTHON)): install it, or say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1): say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: Python's venv module is missing: install it (Debian: python3-venv)"; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (about 450 MB of downloads, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip sync -q --require-hashes requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install -q --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	@$(BIN)/kcm demo $(DEMO_ARGS)

test: setup
	@$(PYTEST) -m "not full"

test-all: setup
	@$(PYTEST)
	@home=$$($(BIN)/python -m tests.support.newest_java) && if [ -n "$$home" ]; then \
		JAVA_HOME=$$home $(PYTEST) -m "not full" $(ON_NEWEST_JAVA); else echo "Skipped: the tests on a newer Java"; fi

repeat: setup
	@$(BIN)/python -m tests.support.repeated $(TIMES) $(PYTEST) -q $(TESTS)

simulate: setup
	@$(BIN)/python -m tests.simulation $(SEEDS)

faults: setup
	@$(BIN)/python -m tests.faults $(if $(FAULTS),"$(FAULTS)",--report docs/reliability.md)

soak: setup
	@$(BIN)/python -m tests.faults --soak $(MINUTES) --report docs/reliability.md

coverage: setup
	@$(BIN)/coverage run -m pytest -q tests/unit tests/property --ignore tests/property/test_simulation.py
	@$(BIN)/coverage report

mutate: setup
	@rm -rf mutants
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/mutmut run
	@$(BIN)/python -m tests.mutation

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m dashboards --check
	@$(BIN)/python -m tools.docs --check

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: setup
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip compile -q pyproject.toml --all-extras --group dev --universal --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -o requirements.lock

generate: setup
	@$(BIN)/python -m dashboards
	@$(BIN)/python -m tools.docs

sbom: setup
	@$(BIN)/python docs/sbom.py > sbom.cdx.json

bench: setup
	@$(BIN)/python -m bench $(BENCH)

clean:
	rm -rf $(VENV) build dist sbom.cdx.json bench.json .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage mutants *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
