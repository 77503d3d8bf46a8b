# `make lab` and `make test` are all the set-up there is: both build .venv from the pinned versions.

# Tests start hundreds of processes: where no bytecode is kept, each compiles 700 files again, which
# is most of what it takes to import them.
unexport PYTHONDONTWRITEBYTECODE
unexport MAKEFLAGS # of this make, not of one that a test starts

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PIP_FLAGS ?=
NOTEBOOK ?= notebooks/00_tour.ipynb
REPORT ?= report.html
# One worker more than there are cores: a worker that waits for a browser or a process of its own
# leaves its core to another one.
WORKERS := $(shell $(PYTHON) -c 'import os; print(1 + len(os.sched_getaffinity(0)))')
PYTEST_FLAGS ?= -n $(WORKERS) --dist worksteal

# An environment is as old as what it was made from, so its stamp carries the digest of that.
stamp = $(VENV)/stamp-$(1)-$(shell cat $(2) pyproject.toml Makefile | cksum | cut -d' ' -f1)
PINS := $(call stamp,pins,requirements.lock)
TOOLS := $(call stamp,tools,requirements-dev.lock)
RUNTIME := $(call stamp,runtime,requirements.lock)
DEV := $(call stamp,dev,requirements.lock requirements-dev.lock)
PIN := $(PIP) install --quiet $(PIP_FLAGS) -r
REVEAL := build/reveal/reveal.js
# Where no package is asked what it needs, two kinds of pins can be installed at once.
ALONE := $(findstring --no-deps,$(PIP_FLAGS))

# `make bench walls` is `make bench NAME=walls`: what follows `bench` names benchmarks, not targets.
ifeq ($(firstword $(MAKECMDGOALS)),bench)
named := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
NAME = $(named)
$(named): ; @:
endif

.PHONY: help lab test test-all check fuzz bench bench-gpu bench-ui bench-course lint report docs slides lock browser clean

help:
	@echo 'make lab      JupyterLab, opened on the tour'
	@echo 'make check    ruff, mypy, import-linter, and a minute of the shortest tests'
	@echo 'make test     every test with a few of its cases, notebooks and browser too'
	@echo 'make test-all every case of every test'
	@echo 'make fuzz     random graphs, files and states for MINUTES=30; SEED= repeats one'
	@echo 'make bench    lists the benchmarks; make bench NAME runs one, with BENCH_FLAGS=...'
	@echo 'make bench-gpu the GPU of this machine: right answers, kernels and programs against PyTorch'
	@echo 'make bench-ui waiting times in the explorer: first picture, knobs, a large graph, memory'
	@echo 'make bench-course every notebook on one core, in 2 GB: seconds and memory of each'
	@echo 'make report   compiles a real model, writes $(REPORT), prints the race'
	@echo 'make docs     the site of docs/, in build/site, with every notebook as it runs here'
	@echo 'make slides   the slides of each chapter, in build/slides; they need npm'
	@echo 'make lock     takes the newest versions that pyproject.toml allows'
	@echo 'make clean    removes .venv and all build output'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo 'Ironworks needs Python 3.11 or newer: make PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(PINS): | $(BIN)/python
	$(PIN) requirements.lock
	@rm -f $(VENV)/stamp-pins-*
	@touch $@

$(TOOLS): | $(if $(ALONE),$(BIN)/python,$(PINS))
	$(PIN) <(grep -v '^-r ' requirements-dev.lock)
	@rm -f $(VENV)/stamp-tools-*
	@touch $@

$(RUNTIME): | $(PINS)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q -j 2 explorer widgets tests # as pip does with what it copies
	@rm -f $(VENV)/stamp-runtime-*
	@touch $@

$(DEV): | $(RUNTIME) $(TOOLS)
	$(if $(ALONE),$(PIP) check)
	@rm -f $(VENV)/stamp-dev-*
	@touch $@

lab: $(RUNTIME)
	$(BIN)/ironworks lab $(NOTEBOOK)

PYTEST := $(BIN)/python -m pytest $(PYTEST_FLAGS)

# ruff, import-linter and mypy are tests like others, which run beside them.
lint: $(DEV)
	$(PYTEST) tests/architecture/test_lint.py < /dev/null

test: browser $(DEV)
	$(PYTEST) -m 'not exhaustive' < /dev/null

test-all: browser $(DEV)
	$(PYTEST) < /dev/null

check: $(DEV)
	$(PYTEST) --quick -m 'not slow and not browser and not exhaustive' < /dev/null

MINUTES ?= 30
fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) < /dev/null

bench: $(DEV)
	$(BIN)/python -m tests.benchmarks $(NAME) $(BENCH_FLAGS) < /dev/null

bench-gpu: $(DEV)
	$(BIN)/python -m tests.benchmarks.gpu $(BENCH_FLAGS) < /dev/null

bench-ui: $(DEV)
	$(BIN)/python -m tests.benchmarks.house $(BENCH_FLAGS) < /dev/null

bench-course: $(RUNTIME)
	$(BIN)/python -m tests.benchmarks.course $(BENCH_FLAGS) < /dev/null

# Chromium comes from the system's packages where we may install; pytest says so again at its end.
# Its shell without windows draws the same pages in less time.
BROWSERS := chromium-headless-shell chromium chromium-browser google-chrome
CHROMIUM := for b in $(BROWSERS); do command -v $$b && break; done
browser:
	@if ! ($(CHROMIUM)) > /dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq < /dev/null; \
	    for b in chromium-headless-shell chromium; do \
	        apt-get install -y -qq --no-install-recommends \
	            $$b fonts-liberation fonts-dejavu-core < /dev/null > /dev/null && break; \
	    done || true; \
	fi
	@($(CHROMIUM)) > /dev/null \
	    || echo 'BROWSER TESTS SKIPPED: there is no Chromium here, and it could not be installed'
	@[ -e $(REVEAL) ] || $(PYTHON) docs/reveal.py $(dir $(REVEAL)) \
	    || echo 'TESTS OF SLIDES SKIPPED: there is no reveal.js here, and it could not be fetched'

report: $(DEV)
	model=$${MODEL:-$$($(BIN)/python -c "import pathlib, onnx; print(pathlib.Path( \
	    onnx.__file__).parent / 'backend/test/data/light/light_squeezenet.onnx')")}; \
	$(BIN)/ironworks report "$$model" -o $(REPORT); \
	$(BIN)/ironworks race "$$model" --against onnxruntime

# A chapter is recorded again when its notebook is another one, or all of them after `make clean`.
RECORDED := $(patsubst notebooks/%,build/course/%,$(wildcard notebooks/*.ipynb))
$(RECORDED): build/course/%: notebooks/% docs/record.py | $(RUNTIME)
	$(BIN)/python docs/record.py $< $@ < /dev/null

# The programs that a chapter's page runs in a browser.
LIVE := $(patsubst notebooks/%.ipynb,build/live/%.js,$(wildcard notebooks/*.ipynb))
$(LIVE): build/live/%.js: docs/live.py $(wildcard widgets/live/*.py) | $(RUNTIME)
	$(BIN)/python docs/live.py $* $@ < /dev/null

# reveal.js comes from npm, which checks it by hash; each file of slides holds it.
$(REVEAL): docs/reveal.py
	$(PYTHON) docs/reveal.py $(@D)

# The slides of a chapter, from its recording.
SLIDES := $(patsubst notebooks/%.ipynb,build/slides/%.html,$(wildcard notebooks/*.ipynb))
$(SLIDES): build/slides/%.html: build/course/%.ipynb $(REVEAL) docs/slides.py docs/live.py \
    $(wildcard docs/slides/deck.*) notebooks/TEACHING.md | $(RUNTIME)
	$(BIN)/python docs/slides.py $< $@ < /dev/null

slides: $(SLIDES)

# Its tools are in an environment of their own: nothing else needs them.
docs: $(RECORDED) $(LIVE) $(SLIDES)
	$(PYTHON) -m venv build/docs
	build/docs/bin/pip install --quiet '.[docs]'
	build/docs/bin/mkdocs build --quiet

# Fresh environments, so that nothing that happens to lie in .venv is pinned. Each pin has the hashes
# of all files of its release, for every platform: pip then refuses any other file. A pin that Python
# 3.11.0 cannot install is an error: state an older one in OLDER.
OLDER := 'soupsieve<3'
HASHED := build/lock/bin/uv pip compile --quiet --no-deps --generate-hashes --no-annotate --no-header \
    --python-version 3.11
FREEZE := build/lock/bin/pip freeze --all --exclude ironworks --exclude pip
lock:
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet 'setuptools>=77' '.[notebook]' $(OLDER)
	$(FREEZE) > build/runtime.in
	build/lock/bin/pip install --quiet -c build/runtime.in '.[notebook,dev]'
	$(FREEZE) | grep -vxFf build/runtime.in > build/dev.in
	build/lock/bin/pip install --quiet uv
	$(HASHED) build/runtime.in > build/runtime.hashed
	{ echo '# What `make lab` installs: the compiler and its notebooks. Made by `make lock`.'; \
	  cat build/runtime.hashed; } > build/runtime.lock
	{ echo '# What `make test` installs on top of the runtime pins. Made by `make lock`.'; \
	  echo '-r requirements.lock'; \
	  $(HASHED) build/dev.in; } > build/dev.lock
	{ sed -n '/^#/p' binder/requirements.txt; cat build/runtime.hashed; } > build/binder.txt
	mv build/binder.txt binder/requirements.txt
	mv build/runtime.lock requirements.lock
	mv build/dev.lock requirements-dev.lock
	rm -rf build/lock build/*.in build/runtime.hashed

clean:
	rm -rf $(VENV) build dist *.egg-info $(REPORT)
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
