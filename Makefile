# Every target sets up .venv by itself; the stamp makes it happen once, and again when the requirements change.
# Override: make test PYTHON=python3.12 WORKERS=4

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BASELINES := .venv-baselines
BASELINES_STAMP := $(BASELINES)/.installed
# Those that need neither data sets nor options.
BENCHMARKS ?= $(patsubst %,benchmarks/%.py,attention first_hour import_time memory_files memory_large memory_wide predict_latency scaling train_speed)

# One thread a worker: workers would otherwise fight for the cores, and sums would depend on how many there are.
# A worker that is done takes over from another: a few long tests would otherwise wait behind each other at the end.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

SUITE ?= not slow and not baselines

TEST_DEMO := OMP_NUM_THREADS=1 .venv-wheel/bin/python -m pytest -q -p no:cacheprovider tests/commands/test_forecast_command.py -k demo

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-baselines test-wheel test-all check format docs bench drills wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# constraints.txt pins torch: a bare "torch" may bring gigabytes of CUDA libraries along.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP) ## train, backtest and forecast the built-in data; the report is demo/report.html
	$(BIN)/rearview demo --out demo

test: $(STAMP) ## the core suite; SUITE="not baselines" takes the slow tests along, in one run
	$(PYTEST) -m "$(SUITE)"

test-slow: $(STAMP) ## compile, browser, kill and many-pair tests only
	$(PYTEST) -m "slow and not baselines"

# Their packages bring a hundred more along, so they stand apart from what everybody else needs; Ray does, too.
$(BASELINES_STAMP): pyproject.toml constraints.txt
	test -x $(BASELINES)/bin/python || $(PYTHON) -m venv $(BASELINES)
	$(BASELINES)/bin/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev,baselines,ray]'
	touch $@

test-baselines: $(BASELINES_STAMP) ## networks of other packages and sweeps on Ray, in an environment of their own
	OMP_NUM_THREADS=1 $(BASELINES)/bin/python -m pytest -m baselines

wheel: $(STAMP) ## build dist/rearview-*.whl
	rm -rf build dist
	$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist .

# The tests' folder is no package and src/ is not on the path: what is imported is what pip and uv installed.
test-wheel: wheel ## install the wheel with pip, then with uv, each into an empty environment, and test the demo there
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip install --disable-pip-version-check --quiet -c constraints.txt pytest uv dist/*.whl
	$(TEST_DEMO)
	.venv-wheel/bin/uv venv --quiet --clear --python .venv-wheel/bin/python .venv-uv
	.venv-wheel/bin/uv pip install --quiet --python .venv-uv/bin/python -c constraints.txt pytest dist/*.whl
	$(subst .venv-wheel,.venv-uv,$(TEST_DEMO))
	rm -rf .venv-wheel .venv-uv

test-all: $(STAMP) ## every test; those of other packages' networks are skipped without them
	$(PYTEST)

check: $(STAMP) ## format, lint, types, import order of the stages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## put the code in shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## build the pages of docs/ into site/; a link that leads nowhere ends the build
	$(BIN)/python -m mkdocs build --strict --site-dir site

bench: $(STAMP) ## run the benchmarks of speed and memory, or those named by BENCHMARKS="benchmarks/a.py ..."
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python "$$script"; done

drills: $(STAMP) ## kill runs, write from several processes, feed damaged files, models and names; count failures; about an hour
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/drills.py

clean: ## remove caches, builds and the demo's output; .venv stays
	rm -rf build dist demo site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
