# Attributary: `make` explains itself.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
EXTRAS ?= dev

.PHONY: help demo test check bench docs pictures clean

help: ## this list
	@echo "Attributary: conversion counts under differential privacy that add up."
	@echo
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.ready-dev ## the main job: plan a budget, measure under it, make the figures add up (in ./demo)
	@$(BIN)/python -m examples.shop ask demo
	$(BIN)/attributary plan demo/spec.toml --prior demo/last_week.csv -o demo/plan.json
	@echo; $(BIN)/python -m examples.shop measure demo
	$(BIN)/attributary denoise --table demo/noisy.csv --levels campaign,location,day --value noisy \
	    --variance noise --nonnegative -o demo/estimates.csv
	@echo; head -8 demo/estimates.csv; echo "…"; echo; echo "demo/estimates.csv has all of them."

test: $(VENV)/.ready-dev ## all tests, the examples in README and docs among them
	$(BIN)/python -m pytest

check: $(VENV)/.ready-dev ## lint, types, and the docs build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir $(VENV)/site

bench: $(VENV)/.ready-bench ## ratios against peers and the physical limit, measured in one run
	$(BIN)/python -m bench

docs: $(VENV)/.ready-dev ## the documentation, live on 127.0.0.1:8000
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

pictures: $(VENV)/.ready-dev ## the pictures of README and docs, drawn anew
	$(BIN)/python -m examples.pictures

clean: ## remove what was built
	rm -rf $(VENV) demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.ready-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	touch $@
