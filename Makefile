# Everything a person runs. CI runs `make test` too, through .ci/run.
PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
OUT := out/fire-flyer-2
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11 --upgrade
BUILD := printf 'hatchling\neditables\n'

# In order: the tools may bring python3-venv, which .venv needs.
.NOTPARALLEL:
.PHONY: help plan check test nightly kinds newest fuzz mutate lint bench ledger notebooks docs man lock sbom kernels tools
.PHONY: clean consumers

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 18

plan: .venv/installed ## build Fire-Flyer 2 into out/fire-flyer-2
	$(BIN)/plan build configs/fire-flyer-2.yaml -o $(OUT)
	@echo "Results are in $(OUT): plan.json holds every figure, opensm/ is what the subnet manager loads."

check: lint ## lint, and all tests that are neither slow nor judged by real tools: about a minute
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -p no:nbmake -m "not slow and not peer and not nightly" --hypothesis-profile fast tests

# Notebooks first: the longest of them would run alone at the end. The linters beside the tests: theirs is one core.
test: tools consumers .venv/installed-dev ## install what the tests need, then check and test everything
	@mkdir -p out; $(MAKE) lint >out/lint.txt 2>&1 & lint=$$!; \
	  $(BIN)/pytest -n $(WORKERS) --nbmake $(wildcard notebooks) tests; tested=$$?; \
	  wait $$lint; linted=$$?; cat out/lint.txt; exit $$((tested || linted))

nightly: tools consumers lint ## all tests, with twenty times the random examples, from a seed that is new each time and is shown; then the next two
	@seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); echo "== random seed $$seed"; status=0; \
	  $(BIN)/pytest -n $(WORKERS) --nbmake --hypothesis-profile nightly --hypothesis-seed "$$seed" -m "" $(wildcard notebooks) tests || status=1; \
	  for last in kinds newest; do $(MAKE) $$last || status=1; done; exit $$status

KINDS := -n $(WORKERS) -p no:nbmake --ignore tests/routing/test_machine_code.py # which holds the choice itself
kinds: tools consumers .venv/installed-dev kernels ## the tests with kernels that are interpreted, compiled, and compiled elsewhere: the same must come out
	$(BIN)/pytest $(KINDS) --kernels interpreted -m "not slow and not peer and not nightly" --hypothesis-profile fast tests
	$(BIN)/pytest $(KINDS) --kernels compiled tests
	scripts/make-venv out/shipped $(PYTHON)
	scripts/install-locked out/shipped requirements-dev.lock dev
	out/shipped/bin/python -m pip --quiet install --no-deps --no-index out/kernels/heddle_kernels-*.whl
	out/shipped/bin/pytest $(KINDS) --kernels compiled tests

newest: tools consumers ## the tests once more with the newest versions that pyproject.toml allows: says what breaks
	scripts/make-venv out/newest $(PYTHON)
	out/newest/bin/python -m pip --quiet --disable-pip-version-check install -e '.[dev]'
	out/newest/bin/pytest -n $(WORKERS) --nbmake $(wildcard notebooks) tests

fuzz: .venv/installed-dev ## 200,000 spoilt inputs for every reader and command, from a seed that is new each time and is shown
	@seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); echo "== seed $$seed"; \
	  PYTHONPATH=tests $(BIN)/python -m fuzz.run --seed "$$seed" --inputs 200000 --keep out/fuzz

mutate: .venv/installed-dev ## break 300 lines drawn at random, one at a time: says which breaks no test sees, in hours
	$(BIN)/python scripts/mutate.py

lint: .venv/installed-dev ## lint, format, types, import contracts: seconds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: tools .venv/installed-dev ## measure beside the peers: prints ratios, fails on none
	@set -e; for bench in benchmarks/timings/bench_*.py; do echo "== $$bench"; $(BIN)/python "$$bench"; done

ledger: .venv/installed-dev ## print how near predicted times of collectives are to published ones, by kind and size
	$(BIN)/python benchmarks/published/ledger.py

notebooks: .venv/installed-dev ## execute every notebook and render it into docs/notebooks
	$(BIN)/python scripts/render_notebooks.py

reference: .venv/installed-dev ## write the pages of keys and columns, docs/reference, out of the code
	$(BIN)/python scripts/write_reference.py

docs: .venv/installed-dev ## build the manual into out/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs out/docs
	@echo "The manual is in out/docs/index.html."

man: .venv/installed-dev ## write the page of `man plan` into out/man
	$(BIN)/python -m sphinx -W --keep-going -q -b man docs out/man

# What builds the checkout is in both files, since it is installed without a network of its own.
lock: .venv/bin/python ## write requirements*.lock anew: the newest versions that pyproject.toml allows, and of uv, with hashes
	$(PIP) install --require-hashes -r requirements-uv.lock
	echo uv | $(LOCK) --output-file requirements-uv.lock -
	$(BUILD) | $(LOCK) --extra dev --output-file requirements-dev.lock pyproject.toml -
	$(BUILD) | $(LOCK) --extra all --constraint requirements-dev.lock --output-file requirements.lock pyproject.toml -

sbom: .venv/installed-dev ## write the software bill of materials of what a user installs: out/heddle.cdx.json
	scripts/make-venv out/sbom-env $(PYTHON)
	out/sbom-env/bin/python -m pip --quiet --disable-pip-version-check install '.[all]'
	out/sbom-env/bin/python -m pip --quiet --disable-pip-version-check uninstall --yes pip setuptools
	$(BIN)/cyclonedx-py environment out/sbom-env/bin/python --pyproject pyproject.toml --output-reproducible \
	  --of JSON --output-file out/heddle.cdx.json
	@rm -rf out/sbom-env; echo "The bill of materials is in out/heddle.cdx.json (CycloneDX)."

kernels: .venv/installed-dev ## make a wheel of compiled kernels for this version of Python: out/kernels/heddle_kernels-*.whl
	$(BIN)/python scripts/make_kernels.py out/kernels

tools: ## install the Debian packages that the tests use as judges
	@scripts/install-test-tools

consumers: out/consumers/installed ## unpack the programs that read our exports, of the versions that they name, for tests: out/consumers

out/consumers/installed: requirements-consumers.lock .venv/bin/python
	@rm -rf out/consumers; if $(PIP) install --require-hashes --no-deps --no-compile --ignore-requires-python \
	  --target out/consumers -r requirements-consumers.lock; then touch $@; \
	  else echo "consumers: pip cannot install them here, for the reason above; their tests are skipped"; fi

clean: ## remove .venv, results and caches
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/bin/python:
	@scripts/make-venv .venv $(PYTHON)

.venv/installed: .venv/bin/python pyproject.toml requirements.lock
	scripts/install-locked .venv requirements.lock all
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml requirements-dev.lock
	scripts/install-locked .venv requirements-dev.lock dev
	@touch .venv/installed $@
