PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench results clean

help:
	@echo "make demo    learn the embedded digits class by class; says where the report is"
	@echo "make test    run the tests"
	@echo "make lint    check format, style, types and the order of imports"
	@echo "make bench   measure speed against the plain way; fails where it has fallen behind"
	@echo "make results put the tables that eec paper left in runs/ into docs/results.md"
	@echo "make clean   remove .venv, caches and build leftovers (runs/ stays)"
	@echo
	@echo "The first call installs into .venv; PYTHON=... chooses the interpreter (3.11 or newer)."

demo: $(READY)
	$(BIN)/eec run digits --size 24 --out runs/demo --overwrite

# One process a core with one thread each: two threads of torch that share a core slow each other down.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/speed.py --rounds 5 --steps 40 --per-class 100 --guard

results: $(READY)
	$(BIN)/eec paper results

# The stamp is touched last: an installation that broke off is taken up again by the next call.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "eec needs Python 3.11 or newer, and '$(PYTHON)' is not that; try: make PYTHON=python3.11" >&2; \
		exit 1; }
	@echo "installing into $(VENV), once"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -type d -name __pycache__ -prune -exec rm -rf {} +
