# The project's commands. Everything runs in .venv, which `make setup` builds from pyproject.toml and constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup test fuzz check format proto demo bench constraints clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fenchel needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@

# What measures or fills the machine runs alone, the rest two at a time. With one thread each for linear algebra they do
# not fight for the cores. Exit code 5 only says that PYTEST_ARGS left nothing over.
test: export OPENBLAS_NUM_THREADS = 1
test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not alone" $(PYTEST_ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -m alone $(PYTEST_ARGS) || [ $$? -eq 5 ]

# A million inputs over all decoders; further ones guided by coverage if the group `fuzz` is installed.
fuzz: setup
	PYTHONPATH=tests $(BIN)/python -m fuzz.campaign $(FUZZ_ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python proto/generate.py --check

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: setup
	$(BIN)/python proto/generate.py

demo: setup
	$(BIN)/fenchel demo

bench: setup
	$(BIN)/fenchel bench crypto --bits 2048
	$(BIN)/fenchel bench crypto --bits 3072

# Renews the pinned versions from what the ranges in pyproject.toml resolve to today.
constraints:
	rm -rf .venv-constraints && $(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet --upgrade pip
	.venv-constraints/bin/python -m pip install --quiet . --group dev --group fuzz
	.venv-constraints/bin/python -m pip freeze --all --exclude fenchel > constraints.txt
	rm -rf .venv-constraints

clean:
	rm -rf $(VENV) .venv-constraints .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
