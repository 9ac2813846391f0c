# `make serve` and `make test` set everything up; finished work is not repeated.
PYTHON ?= python3
BIN := .venv/bin
JS := tests/clients/js
PIP = $(BIN)/python -m pip --disable-pip-version-check install $(COMPILE) -c constraints.txt
# Each process would compile the hundreds of modules that it imports.
unexport PYTHONDONTWRITEBYTECODE

# dxg: that of Windows' subsystem for Linux.
GPU := $(wildcard /dev/nvidia[0-9]* /dev/dxg)
# AMD's, which needs the build for its version of ROCm.
AMD_GPU := $(if $(GPU),,$(wildcard /dev/kfd))
# pip's own torch for Linux brings gigabytes of CUDA, which only a GPU needs.
TORCH_INDEX ?= $(if $(GPU)$(filter-out Linux,$(shell uname)),,https://download.pytorch.org/whl/cpu)

.PHONY: help serve install torch rocm-index pull test test-all test-models test-service test-contract test-bulk test-rest test-isa test-compilers test-clang test-arm test-roundings test-triton test-without-torch kernels attacks gpu image check types js-clients format openapi docs fuzz bench-engines bench-servers bench-overhead bench-outputs clean

# pip hides what a build writes.
CHECK_KERNELS = @ls models/embedwell_models/kernels/*.so >/dev/null 2>&1 || \
	echo "No kernels were compiled, and a CPU takes several times as long: see models/embedwell_models/kernels/compile.log"

NEWER_TRITON = .venv/triton-3.7.1

KERNEL_SOURCES = $(wildcard models/embedwell_models/kernels/*.h models/embedwell_models/kernels/*.cpp)

.DEFAULT_GOAL := serve

help:                          ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

serve: .venv/runtime           ## set up, fetch the model, serve on http://127.0.0.1:8080
	$(CHECK_KERNELS)
	@$(BIN)/embedwell serve

# pip shows nothing of what a build writes.
SILENCE = echo "With a C++ compiler, the kernels of this processor compile for half a minute, in which pip prints nothing"

PREFIX ?= $(HOME)/.local
install: BIN = $(PREFIX)/share/embedwell/bin
install:                       ## add `embedwell` to ~/.local/bin, from an environment of its own in ~/.local/share
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(PREFIX)/share/embedwell
	@$(SILENCE)
	KERNELS=best $(PIP) .
	@$(KERNELS_USABLE) || echo "No compiled kernels for this machine, which needs PyTorch: $(BIN)/pip install torch"
	mkdir -p $(PREFIX)/bin
	ln -sfn $(BIN)/embedwell $(PREFIX)/bin/embedwell
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "Add $(PREFIX)/bin to PATH to run embedwell by its name" ;; esac

NEEDS_ROCM_INDEX = $(and $(AMD_GPU),$(filter file,$(origin TORCH_INDEX)))
torch: $(if $(NEEDS_ROCM_INDEX),rocm-index,.venv/runtime .venv/torch) ## add PyTorch, for GPUs and what the kernels do not compute

rocm-index:
	@echo "This machine has an AMD GPU ($(AMD_GPU)), which PyTorch's default builds do not use: give the index of your ROCm, as in" >&2
	@echo "make torch TORCH_INDEX=https://download.pytorch.org/whl/rocmX.Y (or .../whl/cpu to compute on the CPU)" >&2
	@exit 1

# Tests of a file run one after the other, in one process: they share its servers. A crash of such a
# process ends them all, because pytest-xdist may wait forever after it started another. Each would
# import schemathesis, which the contract alone uses.
PROCESSES := --dist loadfile --max-worker-restart 0 -p no:schemathesis
PARALLEL ?= -n auto --maxprocesses 4 $(PROCESSES)
# For a few hundred tests, a second process would mostly import the same modules again.
FEW ?= $(PARALLEL)
# Those of servers wait for half of their time.
WAITING ?= -n 4 $(PROCESSES)

test: .venv/test               ## set up, fetch the model, run the tests of what breaks most often
	$(CHECK_KERNELS)
	$(BIN)/embedwell pull
	$(BIN)/pytest $(PARALLEL) --quick $(TESTS)

# In parts: the processes of each begin small, and all of them stay below 8 GB of memory.
test-all: test-models test-service test-contract test-bulk test-rest ## all tests, also those that take long or need many packages

test-models: .venv/dev pull
	$(BIN)/pytest $(PARALLEL) --full tests/models

test-service: .venv/dev pull
	$(BIN)/pytest $(WAITING) --full tests/service --ignore tests/service/bulk --ignore $(CONTRACT)

# In one process: each would prepare the requests of all operations.
CONTRACT := tests/service/test_contract.py
test-contract: .venv/dev pull
	$(BIN)/pytest --full $(CONTRACT)

test-bulk: .venv/dev pull
	$(BIN)/pytest $(WAITING) --full tests/service/bulk

test-rest: .venv/dev pull
	$(BIN)/pytest $(WAITING) --full tests --ignore tests/models --ignore tests/service

pull: .venv/dev                ## fetch the default model
	$(CHECK_KERNELS)
	$(BIN)/embedwell pull

# Those of models/ that ask for the instruction set, as an encoder does when it is built; the kernels
# of every instruction set that the processor has are tested by `make test-models`, and layers of torch
# alone, tokenizers and converters use none.
ISA_TESTS ?= $(addprefix tests/models/,cpu_backend/test_library.py precision test_embedder.py \
	$(patsubst %,torch_backend/test_%.py,device_heads encoder encoder_factory \
		linear position_hooks) \
	$(patsubst %,classic/test_%.py,funnel lstm mobilebert word_embeddings word_vectors) \
	test_prompt.py test_static.py model_files/test_modules.py model_files/test_transformer.py \
	families/test_facade.py) \
	tests/service/routes/test_status.py

# The lowest, and none: what those between lack, such as bfloat16 or long sums, the lowest lacks too.
test-isa: .venv/dev            ## the tests of models/ under the lowest instruction set of this processor, and on torch alone
	@set -e; for isa in $$($(BIN)/python -c 'from embedwell_models.cpu_backend import library; print(*library.lower_caps()[-2:])'); do \
		echo "EMBEDWELL_ISA=$$isa"; EMBEDWELL_ISA=$$isa $(BIN)/pytest $(FEW) $(ISA_TESTS); \
	done

# Side by side: a large part of both runs on one processor.
test-compilers: .venv/dev      ## the kernels compiled for other processors and by clang, and their tests
	$(BIN)/pytest $(PARALLEL) -m compiler tests/models/test_clang.py tests/models/test_arm.py

test-clang: .venv/dev          ## the kernels compiled by clang, and their tests
	$(BIN)/pytest -m compiler tests/models/test_clang.py

# In float32, torch's kernels for other processors round differently; so does a single thread. These
# are the simplest: those between them and this processor's own differ from both by less.
OTHER_KERNELS := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE \
	OPENBLAS_CORETYPE=Nehalem OMP_NUM_THREADS=1
ROUNDING_TESTS ?= tests/models/families tests/models/rare tests/models/vision $(wildcard tests/models/classic/test_*.py) \
	tests/models/test_sparse.py tests/models/model_files/test_classifier.py \
	-k "equals_transformers or of_transformers or of_sentence_transformers or whole_model or kernels_alone or attended \
	or mean_of or of_the_code"

test-roundings: .venv/dev      ## the comparisons with transformers, with torch's kernels for other processors
	$(OTHER_KERNELS) FLOAT64_REFERENCES=1 $(BIN)/pytest $(FEW) --full $(ROUNDING_TESTS)

test-triton: .venv/dev $(NEWER_TRITON) ## the kernels for GPUs, in the interpreters of two versions of Triton, and compiled by the newer
	TRITON_INTERPRET=1 $(BIN)/pytest $(FEW) -m interpreter tests/models/torch_backend/triton_kernels
	TRITON_INTERPRET=1 PYTHONPATH=$(CURDIR)/$(NEWER_TRITON) $(BIN)/pytest $(FEW) -m interpreter tests/models/torch_backend/triton_kernels
	PYTHONPATH=$(CURDIR)/$(NEWER_TRITON) $(BIN)/pytest $(FEW) --full -k fit_other tests/models/torch_backend/triton_kernels/test_compile.py

test-arm: .venv/dev            ## the kernels for ARM64, and tests of them under an emulator; .ci/arm fetches its Python
	$(BIN)/pytest -m compiler tests/models/test_arm.py

# Programs with torch write models and what they compute; a server without torch computes the same.
LIGHT := .venv-light
LIGHT_TESTS ?= $(addprefix tests/,service/routes service/vendors \
	service/test_tei.py service/test_long_texts.py service/test_model_lifecycle.py \
	service/launch service/batches service/cli service/desktop \
	models/loading models/cpu_backend models/test_fork.py)

test-without-torch: .venv/dev pull $(LIGHT)/test ## a server, its routes and the library where torch is not installed
	HF_HUB_OFFLINE=1 $(BIN)/python -m tests.without_torch.write_models $(LIGHT)/models
	PYTEST_ADDOPTS=--need-all EMBEDWELL_TEST_MODELS=$(LIGHT)/models \
		$(LIGHT)/bin/pytest -m without_torch tests/without_torch
	PYTEST_ADDOPTS= $(LIGHT)/bin/pytest $(WAITING) $(LIGHT_TESTS)

kernels: .venv/runtime         ## compile the kernels again, as after installing a compiler
	$(PIP) --no-deps -e .
	$(CHECK_KERNELS)

# DAMAGED_FILES=5000 DAMAGED_FILES_SEED=2 damages more copies of the model folders, with other dice.
attacks: .venv/dev pull        ## what a server must bear: hostile clients, overload, kills, damaged files
	$(BIN)/pytest -n 2 --dist loadfile -p no:schemathesis -rP -m attack tests/attacks

gpu: .venv/dev pull            ## the tests that need a GPU
	$(BIN)/pytest tests/gpu -m gpu

image: .venv/dev               ## build the image and run it, as root: podman, runc, mmdebstrap
	$(BIN)/pytest -p no:schemathesis -m image tests/deploy

# Three at a time: the longest first, next to them those that take one process or wait for programs, so
# that no processor rests. `check` has pulled the model: make would begin with the stages that need none
# while it is pulled.
STAGES := test-models test-service image test-isa test-triton test-without-torch test-roundings types test-contract docs \
	test-rest attacks test-compilers test-bulk
THREE_AT_A_TIME = -j 3 $(if $(filter output-sync,$(.FEATURES)),--output-sync) \
	PARALLEL='$(PARALLEL) --maxprocesses 2' FEW='-p no:schemathesis' WAITING='$(WAITING) -n 2'

# The tests of JavaScript clients need them; they are skipped where there is no npm.
check: .venv/dev pull $(if $(shell command -v npm),js-clients) ## what CI runs: all of these, and lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(KERNEL_SOURCES)
	@echo "Three stages at a time, each of which prints when it has ended: $(STAGES)"
	@$(MAKE) --keep-going --old-file pull $(THREE_AT_A_TIME) $(STAGES)

types: .venv/dev               ## check the types, by mypy
	$(BIN)/mypy

js-clients: $(JS)/node_modules ## fetch the JavaScript clients that tests run, with npm

format: .venv/dev              ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(KERNEL_SOURCES)

openapi: .venv/dev             ## write docs/openapi.json, docs/settings.md, the tables of families and the indexes
	$(BIN)/python -m docs.build.openapi
	$(BIN)/python -m docs.build.settings_page
	$(BIN)/python -m docs.build.families_page
	$(BIN)/python -m docs.build.routes_index

docs: .venv/dev                ## build the documentation as a site, with all links checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

fuzz: .venv/dev                ## ask what the document allows, and does not, CASES times each
	FUZZ_CASES=$(or $(CASES),1000) $(BIN)/pytest $(CONTRACT)

bench-engines: .venv/dev       ## this engine against others (benchmarks/README.md)
	$(BIN)/python -m benchmarks.engines $(ARGS)

bench-servers: .venv/dev       ## this server against others, under load
	$(BIN)/python -m benchmarks.servers $(ARGS)

bench-overhead: .venv/dev      ## what this server adds to its engine
	$(BIN)/python -m benchmarks.overhead $(ARGS)

bench-outputs: .venv/dev       ## what each form of an answer costs
	$(BIN)/python -m benchmarks.outputs $(ARGS)

clean:                         ## remove the environment and the caches of the tools
	rm -rf .venv $(LIGHT) .venv-arm site $(JS)/node_modules .mypy_cache .ruff_cache .pytest_cache

ifneq ($(wildcard .venv/python),)
ifeq ($(filter clean,$(MAKECMDGOALS))$(shell grep -F "$(CURDIR)/.venv" .venv/pyvenv.cfg),)
$(error .venv was made in another folder, whose path it holds: run `make clean`, then this again)
endif
endif

$(JS)/node_modules: $(JS)/package.json $(JS)/package-lock.json
	npm ci --prefix $(JS) --ignore-scripts --no-audit --no-fund
	@touch $@

CHECK_PYTHON = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }

.venv/python:
	$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv
	@touch $@

# The index is asked for torch alone: what torch requires comes from pip's own.
.venv/torch: .venv/python
ifneq ($(TORCH_INDEX),)
	@echo "No NVIDIA device here: PyTorch is taken from $(TORCH_INDEX) (make TORCH_INDEX= takes pip's own choice)"
	$(PIP) --no-deps --retries 1 --extra-index-url $(TORCH_INDEX) torch
endif
	$(PIP) $(if $(and $(AMD_GPU),$(TORCH_INDEX)),--extra-index-url $(TORCH_INDEX)) torch
	@touch $@

PACKAGE := pyproject.toml constraints.txt hatch_build.py $(wildcard models/embedwell_models/kernels/*.cpp models/embedwell_models/kernels/*.h)

KERNELS_USABLE = $(BIN)/python -c 'from embedwell_models.cpu_backend.library import best_isa; exit(best_isa("float32") is None)'

# Each includes the one before it, and is installed in one go: every time, the kernels are compiled,
# for `make check` those of other processors too.
# Whether they can be used, and torch is not needed, shows only after that.
.venv/runtime: $(if $(GPU),.venv/torch) .venv/python $(PACKAGE)
	@$(SILENCE)
	KERNELS=best $(PIP) -e .
	@$(KERNELS_USABLE) || { head -n 1 models/embedwell_models/kernels/compile.log 2>/dev/null; \
		echo "No compiled kernels for this machine: PyTorch is installed to compute, several times as slowly." \
		"After installing g++ or clang: make kernels"; $(MAKE) .venv/torch; }
	@touch $@

# Python compiles what is imported; pip would compile 15,000 modules on one processor, of which the
# quick tests import 4,000.
.venv/test .venv/dev: COMPILE = --no-compile

# The kernels compile while pip unpacks what tests import: an editable package takes them from here.
.venv/test: .venv/python $(PACKAGE)
	@$(MAKE) -j 2 COMPILE=$(COMPILE) .venv/kernels .venv/packages
	@touch .venv/runtime $@

.venv/dev: .venv/python $(PACKAGE)
	@$(MAKE) -j 2 COMPILE=$(COMPILE) .venv/all-kernels .venv/all-packages
	@touch .venv/runtime .venv/test $@

WHEEL = $(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps -w .venv/wheel .

.venv/kernels: .venv/python $(PACKAGE)
	KERNELS=best $(WHEEL)
	@touch $@

.venv/all-kernels: .venv/python $(PACKAGE)
	$(WHEEL)
	@touch $@

.venv/packages: .venv/torch $(PACKAGE)
	KERNELS=compiled $(PIP) -e '.[torch,test]'
	@touch $@

.venv/all-packages: .venv/torch $(PACKAGE)
	# All of what they need, which pip would otherwise find out anew for a minute and a half.
	-$(PIP) --no-deps -r constraints.txt
	KERNELS=compiled $(PIP) -e '.[torch,test,dev,clients]'
	# These want older versions of what others need newer ones of, and run with both.
	$(PIP) --no-deps infinity_client mem0ai boto3 botocore moto s3transfer
ifeq ($(GPU),)
	# torch for GPUs brings its own, whose kernels the tests compile, and run in an interpreter.
	$(PIP) --no-deps triton==3.6.0
endif
	# Of these, which are a third of all, tests import little or nothing; Python compiles that itself.
	$(BIN)/python -W ignore -m compileall -q -j 0 -x '/(kubernetes|tests?|transformers/models|_inductor|testing|rllib|mypyc?|fontTools)/' .venv/lib >/dev/null || true
	@touch $@

# The oldest supported torch brings 3.6.0, the newest this one.
$(NEWER_TRITON): .venv/dev
	$(PIP) --no-compile --no-deps --upgrade --target $@ triton==3.7.1
	@touch $@

# What the package without extras requires, and some tests need, next to the code of this checkout.
$(LIGHT)/test: pyproject.toml constraints.txt deploy/requirements.py
	rm -rf $(LIGHT)
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python deploy/requirements.py > $(LIGHT)/requirements.txt
	$(LIGHT)/bin/python -m pip --disable-pip-version-check install -c constraints.txt \
		-r $(LIGHT)/requirements.txt hatchling hypothesis jsonschema-rs psutil \
		pytest pytest-xdist
	printf '%s\n' "$(CURDIR)/models" "$(CURDIR)/service" > \
		"$$($(LIGHT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/embedwell.pth"
	@touch $@
