# Every target makes the virtual environment first, once: it is rebuilt only when one of the files it depends on changes.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The simulated buildings have a separate environment: Sinergym needs Python 3.12 and a newer gymnasium than d3rlpy.
VENV_HVAC ?= .venv-hvac
INSTALLED_HVAC := $(VENV_HVAC)/.installed
PYTHON_HVAC ?= $(shell for python in python3.12 python3.13 $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python; do \
	"$$python" -c 'import sys; assert sys.version_info >= (3, 12)' 2>/dev/null && echo "$$python" && break; done)
CODE := setup.py sb3_span tests examples docs

.PHONY: install install-hvac quickstart test test-hvac bench memory-checks type lint format check-codestyle commit-checks doc claims reports figures clean

install: $(INSTALLED)

$(INSTALLED): setup.cfg setup.py pyproject.toml constraints.txt $(wildcard sb3_span/*/native/*.[ch])
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11)' 2>/dev/null || \
		{ echo "sb3_span needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make $(or $(MAKECMDGOALS),install) PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	rm -f sb3_span/*/native/*.cpython-*.so  # of one version of Python, from before one file was for all: it would be taken first
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[zoo,offline,process,tests,docs,deploy]'
	@touch $@

# SPAN and an MLP of the same size on CartPole-v1, side by side: a table and a picture in quickstart/.
quickstart: $(INSTALLED)
	$(BIN)/python examples/quickstart.py

# Some of it alone: make test TESTS=tests/nn
test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses auto $(TESTS)
	$(if $(TESTS),,@$(MAKE) --no-print-directory test-hvac)

# The simulated buildings, with EnergyPlus.
test-hvac:
	@python="$(PYTHON_HVAC)"; if [ -z "$$python" ]; then \
		echo "tests/hvac was not run with EnergyPlus: that needs Python 3.12 or newer. Try: make test-hvac PYTHON_HVAC=/path/to/python3.12"; \
	else \
		$(MAKE) --no-print-directory install-hvac PYTHON_HVAC="$$python" && \
		$(VENV_HVAC)/bin/python -m pytest --numprocesses auto tests/hvac; \
	fi

install-hvac: $(INSTALLED_HVAC)

$(INSTALLED_HVAC): setup.cfg setup.py pyproject.toml constraints-hvac.txt $(wildcard sb3_span/*/native/*.[ch])
	$(PYTHON_HVAC) -m venv $(VENV_HVAC)
	$(VENV_HVAC)/bin/python -m pip install --quiet --upgrade pip
	$(VENV_HVAC)/bin/python -m pip install --constraint constraints-hvac.txt --editable '.[zoo,hvac,tests]'
	@touch $@

# SPAN's speed relative to the MLP's: tables, CSV files and pictures in speed/. Nothing else should run meanwhile.
# What docs/speed.md shows: make bench OUTPUT=results/speed; shorter with ROUNDS=8.
bench: $(INSTALLED)
	$(BIN)/sb3-span speed $(if $(OUTPUT),--output $(OUTPUT)) $(if $(ROUNDS),--rounds $(ROUNDS))

# The native kernel's tests with AddressSanitizer and UndefinedBehaviorSanitizer, and the kernel alone under valgrind.
memory-checks: $(INSTALLED)
	$(BIN)/python tests/nn/memory_checks.py

type: $(INSTALLED)
	$(BIN)/mypy

lint: $(INSTALLED)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

format: $(INSTALLED)
	$(BIN)/ruff check --select I --fix $(CODE)
	$(BIN)/ruff format $(CODE)

check-codestyle: lint

commit-checks: format type lint

# Warnings are errors.
doc: $(INSTALLED)
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env docs docs/_build/html

# The paper, claim by claim: docs/claims.md, from results/.
claims: $(INSTALLED)
	$(BIN)/python docs/claims.py

# The reports in results/, from the records there.
reports: $(INSTALLED)
	$(BIN)/python docs/reports.py

# The pictures of the documentation that are drawn from the code.
figures: $(INSTALLED)
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/suspension.py
	$(BIN)/sb3-span plot invertedpendulum --output docs/images/invertedpendulum.png

clean:
	rm -rf $(VENV) $(VENV_HVAC) build dist *.egg-info docs/_build quickstart speed sb3_span/*/native/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
