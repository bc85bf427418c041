# Attributary: `make` explains itself.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
EXTRAS ?= dev
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')

.PHONY: help demo test test-all update-golden test-duckdb1 test-peers check bench fuzz vectors docs pictures dist clean

help: ## this list
	@echo "Attributary: conversion counts under differential privacy that add up."
	@echo
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.ready-decrypt ## the main job: a generated shop's logs become counts that add up (in ./demo)
	$(BIN)/attributary generate shop -o demo/
	$(BIN)/attributary run demo/spec.toml --prior-until 2026-02-02 --estimator nonnegative --again -o demo/run

# Tests start many processes, which need not compile every module anew; groups start in the order of tests/conftest.py.
# One worker more than there are cores: the one that has the browser and the one that has Spark often wait for them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

test: $(VENV)/.ready-dev ## the tests, the examples in README and docs among them
	$(PYTEST) $(if $(filter all,$(EFFORT)),,-m "not sweep")

test-all: ## the same with the longest tests, and four times as many generated examples
	EFFORT=all $(MAKE) --no-print-directory test

update-golden: $(VENV)/.ready-dev ## accept what commands, pages and docs print now; read the diff before you commit it
	UPDATE_GOLDEN=1 $(PYTEST) tests/facts tests/test_docs.py

test-duckdb1: $(VENV)/.ready-dev ## the tests of logs, on the last DuckDB before 2
	test -d $(VENV)/duckdb1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --target $(VENV)/duckdb1 'duckdb<2'
	PYTHONPATH=$(VENV)/duckdb1 $(PYTEST) tests/logs/test_count.py tests/logs/test_attribution.py tests/logs/test_values_count.py tests/paper/test_load.py \
	    tests/cli/test_cli_count.py tests/cli/test_cli_run.py tests/explore/test_explore.py tests/explore/test_explore_cli.py

PEERS := opendp==0.16.0 polars==1.36.1 polars-runtime-32==1.36.1 dp-accounting==0.6.0 attrs absl-py dm-tree mpmath wrapt
test-peers: $(VENV)/.ready-dev ## recipes with OpenDP, and privacy accounts beside Google's dp-accounting
	test -d $(VENV)/peers || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --target $(VENV)/peers $(PEERS)
	PYTHONPATH=$(VENV)/peers $(BIN)/python -m pytest -n0 tests/noise/beside_dp_accounting.py tests/pipeline/beside_opendp.py

check: $(VENV)/.ready-dev ## lint, types, and the docs build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir $(VENV)/site

bench: $(VENV)/.ready-bench ## ratios against peers and the physical limit, measured in one run
	$(BIN)/python -m bench

MINUTES ?= 10
fuzz: $(VENV)/.ready-dev ## mutated inputs for every parser and command; MINUTES=60 for longer
	$(BIN)/python -m fuzz --minutes $(MINUTES) --jobs 2

VECTORS_BASE ?= https://github.com
vectors: ## the published vectors that conformance tests read, at their commits, into ./vectors (by git)
	$(PYTHON) tests/fetch_vectors.py vectors --base $(VECTORS_BASE)

docs: $(VENV)/.ready-dev ## the documentation, live on 127.0.0.1:8000
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

pictures: $(VENV)/.ready-dev ## the pictures and the notebook of README and docs, made anew
	$(BIN)/python -m examples.pictures
	$(BIN)/python -m examples.page_pictures
	$(BIN)/python -m examples.notebook

dist: $(VENV)/.ready-dev ## wheel and sdist in dist/, each of which passes `run` in an empty environment
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist
	for built in dist/*.whl dist/*.tar.gz; do \
	    rm -rf dist/try && $(BIN)/python -m venv dist/try && \
	    dist/try/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$built" && \
	    dist/try/bin/attributary generate shop --rows 20000 -o dist/try/shop/ -q && \
	    dist/try/bin/attributary run dist/try/shop/spec.toml -o dist/try/run -q && \
	    test -s dist/try/run/report.html || exit 1; \
	done
	rm -rf dist/try

clean: ## remove what was built
	rm -rf $(VENV) demo dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.ready-%: pyproject.toml constraints.txt
	@python=$(PYTHON); test ! -x $(BIN)/python || python=$(BIN)/python; \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Attributary needs Python 3.11 or newer; $$python is $$($$python --version 2>&1 | head -n 1): choose another," \
	        "as in \`make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12\`, after \`make clean\` if $(VENV) was made by it" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	touch $@
