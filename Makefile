# Every target installs what it needs: a virtual environment in .venv, made once and remade when the lock changes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
UV_VERSION := 0.13.9
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PACKAGES := headrace model_store producers schemas stream_workers benchmarks
DEMO_ARGUMENTS ?=
SOAK_ARGUMENTS ?=
SWITCH_SOAK_ARGUMENTS ?=
ENDURANCE_ARGUMENTS ?=
BENCH_ARGUMENTS ?=

.PHONY: help demo test lint check bench bench-quick soak switch-soak endurance fmt docs clean

help: ## Show the targets
	@echo "Headrace: batch and stream inference for PyTorch models on Kafka"
	@echo
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 16
	@echo
	@echo "Python is '$(PYTHON)'; choose another one with: make <target> PYTHON=/path/to/python3.12"

demo: $(STAMP) ## Kafka, four camera streams, a kill, a ledger and a contact sheet, in about a minute
	@$(BIN)/headrace demo $(DEMO_ARGUMENTS)

test: $(STAMP) ## Run the whole suite: unit, contract, integration and short fault tests
	@echo "== tests: all"
	@$(BIN)/python -m pytest tests

lint: $(STAMP) ## Format, lint, import rules, types, generated pages and package names
	@echo "== format"
	@$(BIN)/ruff format --check .
	@echo "== lint"
	@$(BIN)/ruff check .
	@echo "== import rules"
	@$(BIN)/lint-imports
	@echo "== types"
	@$(BIN)/mypy --strict $(PACKAGES)
	@echo "== generated pages"
	@$(BIN)/python docs/generate_reference.py --check
	@echo "== package names"
	@$(BIN)/python .ci/check_package_names.py

check: lint ## The same and the unit tests
	@echo "== tests: unit"
	@$(BIN)/python -m pytest tests/unit -q

bench: $(STAMP) ## Measure Headrace against limits, loops and peers: about half an hour
	@$(BIN)/python -m benchmarks $(BENCH_ARGUMENTS)

bench-quick: $(STAMP) ## The same in three minutes: the contestants that matter most
	@$(BIN)/python -m benchmarks --quick $(BENCH_ARGUMENTS)

soak: $(STAMP) ## Kill processes of a worker at random for two minutes, then audit every record
	@$(BIN)/python -m tests.faults.soak $(SOAK_ARGUMENTS)

switch-soak: $(STAMP) ## Switch and roll back versions of 100 MB under load for six minutes, then audit and replay it all
	@$(BIN)/python -m tests.faults.switch_soak $(SWITCH_SOAK_ARGUMENTS)

endurance: $(STAMP) ## Run two lanes with expiring requests for half an hour, then look for drift
	@$(BIN)/python -m tests.faults.endurance $(ENDURANCE_ARGUMENTS)

fmt: $(STAMP) ## Format the code and repair what the linter can repair
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(STAMP) ## Write the generated pages again
	@$(BIN)/python docs/generate_reference.py

clean: ## Remove outputs and caches; keeps .venv and the local stack's downloads
	@echo "removing outputs and caches"
	@rm -rf out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: '$(PYTHON)' is not Python 3.11 or later; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: '$(PYTHON)' has no venv module with pip; install it (on Debian and Ubuntu: the python3-venv package)" >&2; \
	  exit 1; }
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  echo "making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv --clear $(VENV); fi
	@echo "installing uv $(UV_VERSION)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@echo "installing the locked packages (the first time this downloads several GB: torch comes with CUDA)"
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@echo "installing headrace itself"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@
