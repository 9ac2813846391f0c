# `make serve` and `make test` set everything up; finished work is not repeated.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -c constraints.txt

.PHONY: serve test gpu check format openapi fuzz bench-engines bench-servers bench-overhead bench-outputs clean

serve: .venv/runtime           ## set up, fetch the model, serve on http://127.0.0.1:8080
	@$(BIN)/embedding-service serve

test: .venv/dev                ## set up, fetch the model, run the tests
	$(BIN)/embedding-service pull
	$(BIN)/pytest

gpu: .venv/dev                 ## the tests that need a GPU
	$(BIN)/embedding-service pull
	$(BIN)/pytest tests/gpu -m gpu

check: .venv/dev               ## what CI runs: lint, format, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

format: .venv/dev              ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: .venv/dev             ## write docs/openapi.json, as the server answers it
	$(BIN)/python -m deploy.openapi

fuzz: .venv/dev                ## ask what the document allows, and does not, CASES times each
	FUZZ_CASES=$(or $(CASES),1000) $(BIN)/pytest tests/service/test_contract.py

bench-engines: .venv/dev       ## this engine against others (deploy/benchmark/README.md)
	$(BIN)/python -m deploy.benchmark.engines $(ARGS)

bench-servers: .venv/dev       ## this server against others, under load
	$(BIN)/python -m deploy.benchmark.servers $(ARGS)

bench-overhead: .venv/dev      ## what this server adds to its engine
	$(BIN)/python -m deploy.benchmark.overhead $(ARGS)

bench-outputs: .venv/dev       ## what each form of an answer costs
	$(BIN)/python -m deploy.benchmark.outputs $(ARGS)

clean:                         ## remove the environment and the caches of the tools
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache

ifneq ($(wildcard .venv/python),)
ifeq ($(filter clean,$(MAKECMDGOALS))$(shell grep -F "$(CURDIR)/.venv" .venv/pyvenv.cfg),)
$(error .venv was made in another folder, whose path it holds: run `make clean`, then this again)
endif
endif

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/runtime: .venv/python pyproject.toml constraints.txt hatch_build.py $(wildcard models/kernels/*.cpp models/kernels/*.h)
	$(PIP) -e .
	@touch $@

.venv/dev: .venv/runtime
	$(PIP) -e '.[dev,clients]'
	@touch $@
