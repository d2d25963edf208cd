# Every target sets up what it needs first and installs nothing that is there. PYTHON chooses the interpreter,
# NULLBLOCK_ENVS a folder of environments that several clones share; BENCH, MUTANTS and MASKING are options of those targets.
PYTHON ?= python3
.DEFAULT_GOAL := help
.PHONY: help setup parity parity-quick parity-full test lint bench mutants masking model hunt soak schema golden clean setup-base setup-test setup-model setup-oracle

# `make parity` is the whole job or nothing: a filter on its command line is a mistake, not a smaller job.
ifneq ($(filter parity parity-quick parity-full,$(MAKECMDGOALS)),)
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
TARGETS := help setup parity parity-quick parity-full test lint bench mutants masking model hunt soak schema golden clean
EXTRA := $(filter-out PYTHON NULLBLOCK_% MAKE%,$(filter-out -%,$(GIVEN))) $(filter-out $(TARGETS),$(MAKECMDGOALS))
ifneq ($(strip $(EXTRA)),)
$(error make parity takes no arguments, got: $(strip $(EXTRA)) -- for a part of the scenarios run .venv/bin/parity run --family NAME, or .venv/bin/parity run SCENARIO)
endif
endif

help: ## say what each target does
	@awk -F ': .*## ' '/^[a-z-]+: .*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: setup-base setup-oracle ## make .venv and the oracle's environment (2.1 GB, about two minutes), or nothing if they are there

parity: setup model ## the main job: all three levels on live upstream and on the engine; exit 0 when all is MATCH or COVERED
	@.venv/bin/parity check

parity-quick: setup ## the levels plan and schedule only: no weights, no server, some seconds
	@.venv/bin/parity check --quick

parity-full: setup model ## what `make parity` does, the long scenarios and more plays of what has several outcomes
	@.venv/bin/parity check --full

test: setup-test setup-model setup-oracle setup-examples model ## run all tests
	@.venv/bin/python -m pytest

lint: setup-test setup-model ## check format, lint and types
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m mypy

bench: setup model ## ours beside upstream and transformers, text and steps, on an idle machine (about 20 minutes)
	@.venv/bin/python -m parity.bench $(BENCH)

mutants: setup setup-test ## faults planted one at a time in engine and judge, and who notices them (MUTANTS: its options)
	@.venv/bin/python -m parity.detection.mutants $(MUTANTS)

masking: setup setup-test ## faults planted in pairs, one of them recorded, and how often the other stays hidden (MASKING: its options)
	@.venv/bin/python -m parity.detection.masking $(MASKING)

model: setup-model ## make .models/smollm2-135m-instruct (downloads 93 MB) and .models/tiny-opt, or nothing if they are there
	@.venv/bin/python -m engine.model_files

hunt: setup ## a hunt of about a minute at level schedule, the same 5,600 timelines each time: exit 0 when nothing is new
	@.venv/bin/parity fuzz --level schedule --seed 7 --scenarios 5600

soak: model ## 200 streaming clients that come and go for a minute against tiny-opt: no 500, no lost block, flat memory
	@.venv/bin/python -m engine.server.soak

schema: setup-base ## write the JSON Schemas of scenario and observation anew
	@.venv/bin/parity schema

golden: setup ## write the golden lines of parity/golden anew from live upstream
	@.venv/bin/python -m parity.subjects.golden_record

clean: ## remove this clone's environments, caches and runs (shared environments stay)
	@rm -rf .venv oracle/.venv oracle/.venv-* oracle/.venv.* oracle/.overlay oracle/.cache runs run.jsonl
	@rm -rf .examples .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find engine oracle parity tests -name __pycache__ -type d -prune -exec rm -rf {} +

setup-base:
	@command -v "$(PYTHON)" >/dev/null || { echo "setup: no $(PYTHON) on the PATH: install Python 3.11 or newer, or run make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@"$(PYTHON)" -m oracle.environment main --lock base

setup-test: setup-base
	@"$(PYTHON)" -m oracle.environment main --lock test

setup-model: setup-base
	@"$(PYTHON)" -m oracle.environment main --lock model

setup-examples: setup-model .examples/published

.examples/published: requirements/examples.lock
	@rm -rf .examples && mkdir .examples
	@.venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-deps --only-binary :all: --target .examples/part -r requirements/examples.lock
	@mv .examples/part .examples/published

setup-oracle: setup-base
	@.venv/bin/python -m oracle.install
