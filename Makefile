# The project's commands. Everything runs in .venv, which `make setup` builds from pyproject.toml and constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GROUPS := build dev sbom fuzz constraints
SBOM ?= fenchel.cdx.json

.PHONY: setup test fuzz check format proto demo screenshots bench constraints sbom clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt deploy/install.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fenchel needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) deploy/install.py $(VENV) --editable --extra full --group build --group dev --group sbom
	touch $@

# What measures or fills the machine runs alone. The rest runs three files at a time, because tests of processes and
# containers wait much of their time; in the order of their folders, so that the longest come first; and file by file, so
# that fixtures of a file are made once. With one thread each for linear algebra they do not fight for the cores. Exit
# code 5 only says that PYTEST_ARGS left nothing over.
test: export OPENBLAS_NUM_THREADS = 1
test: setup
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not alone" $(PYTEST_ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -m alone $(PYTEST_ARGS) || [ $$? -eq 5 ]

# A million inputs over all decoders; further ones guided by coverage if the group `fuzz` is installed:
# .venv/bin/python -m pip install --require-hashes --constraint constraints.txt --group fuzz
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

# The picture in the README, and with LOOKS=DIR pictures of every width, light and dark. Needs Debian's chromium.
screenshots: setup
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m browser.screenshots docs/dashboard.png $(LOOKS)

bench: setup
	$(BIN)/fenchel bench crypto --bits 2048
	$(BIN)/fenchel bench crypto --bits 3072

# Renews the pinned versions, with the hashes of all their files, from what the ranges in pyproject.toml resolve to today.
constraints: setup
	$(BIN)/python -m pip install --quiet --require-hashes --constraint constraints.txt --group constraints
	$(BIN)/uv pip compile pyproject.toml --all-extras $(GROUPS:%=--group %) --universal --fork-strategy fewest \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade --quiet \
		--output-file constraints.txt

# The bill of materials of what an installation with all its parts runs: CycloneDX, as JSON.
sbom: setup
	rm -rf .venv-sbom
	$(PYTHON) deploy/install.py .venv-sbom --extra full
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
		--validate --output-format JSON --output-file $(SBOM) .venv-sbom/bin/python
	rm -rf .venv-sbom

clean:
	rm -rf $(VENV) .venv-sbom $(SBOM) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
