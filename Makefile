# Every target makes its own virtual environment in this folder and keeps it until what it holds changes.
# Needed on the machine: make, git, and a Python >= 3.11 with venv and pip.

ifndef PYTHON
PYTHON := $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
endif

# For one test, a filter, a benchmark: make test ARGS="tests/test_house.py -k arrow"
ARGS ?=

environment = bin=$$($(PYTHON) tools/environment.py $(1)) || exit 1;

.PHONY: help demo test coverage check bench chaos format api pins clean python

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: python ## watch perdure at work
	@$(call environment,test) $$bin/perdure demo $(ARGS)

test: python ## the tests, on the supported Pythons of this machine; ARGS="..." goes to pytest
	@$(PYTHON) tools/matrix.py $(ARGS)

coverage: python ## the tests on the newest Python, with branch coverage
	@$(PYTHON) tools/matrix.py --coverage

check: python ## lint, format, types; all of them, whatever fails first
	@$(call environment,check) PATH="$$bin:$$PATH"; code=0; set -x; \
	ruff check || code=1; \
	ruff format --check || code=1; \
	mypy || code=1; \
	basedpyright || code=1; \
	python tools/typed.py || code=1; \
	exit $$code

chaos: python ## the long looks: a million failing calls without a leak, 5,000 examples of each property
	@$(call environment,test) export PERDURE_LEAK_CALLS=1000000 HYPOTHESIS_PROFILE=long; \
	$$bin/python -m pytest --timeout=0 -o faulthandler_timeout=0 -k "leak or memory or garbage or model or property" $(ARGS)

bench: python ## measure against the other libraries
	@$(call environment,bench) $$bin/python -m benchmarks $(ARGS)

format: python ## let ruff rewrite what it can
	@$(call environment,check) $$bin/ruff check --fix; $$bin/ruff format

api: python ## rewrite tests/api.txt, the list of every public name
	@$(call environment,test) $$bin/python tools/api.py > tests/api.txt

pins: python ## resolve requirements/ anew from pyproject.toml; needs every supported Python
	@$(PYTHON) tools/pins.py

clean: ## remove environments and caches
	rm -rf .venv* .build .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache dist

python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 with venv and pip found; name one: make PYTHON=/path/to/python" >&2; exit 1; }
