# Each target does its own set-up: a virtual environment in .venv, filled from the hashed requirements.txt. It is made with
# the first Python that is found among 3.11, 3.12 and 3.13; `make PYTHON=/path/to/python` names another.
export PYTHON
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Twice quiet: errors are shown, warnings about places where there is no package are not.
PIP := -m pip install --quiet --quiet --disable-pip-version-check

PEERS := .venv-peers
ENGINES := .venv-engines
FLARE := .venv-flare
PRIVATE := .venv-private
SITE := .venv-docs
# The Pythons that the base package is tested with besides; .ci/base.txt lists what of the suite that is.
OTHERS := 3.12 3.13

.PHONY: demo test test-all test-engines test-frameworks test-flare test-private coverage lint bench bench-peers
.PHONY: requirements mutants campaign docs clean

demo: $(READY)
	$(BIN)/python -m mixtailor demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 -q

# The base package on the other Pythons, without torch and what else is optional: tests that need it are skipped.
test-all: test $(OTHERS:%=test-%)

test-%: .venv-%/ready
	.venv-$*/bin/python -m pytest -q @.ci/base.txt $(ARGUMENTS)

# Engines that the development environment does not have: their tests are skipped there. Environments of their own, since the
# pins of torchft, of FLARE and of the private engine contradict ours and each other's.
test-engines: test-frameworks test-flare test-private

test-frameworks: $(ENGINES)/ready
	$(ENGINES)/bin/python -m pytest -q tests/engines/test_frameworks.py tests/engines/test_torchft.py \
		tests/engines/test_adapters.py $(ARGUMENTS)

test-flare: $(FLARE)/ready
	$(FLARE)/bin/python -m pytest -q tests/engines/flare $(ARGUMENTS)

# Three computing parties, whose engine needs numpy below 2 and Python 3.11.
test-private: $(READY) $(PRIVATE)/ready
	MIXTAILOR_PRIVATE_PYTHON=$(PRIVATE)/bin/python PYTHONPATH=src \
		$(BIN)/python -m pytest -q tests/engines/test_private.py $(ARGUMENTS)

# Lines and branches that no test runs, in htmlcov/index.html. Slower than `make test`.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 -q --cov --cov-report=term --cov-report=html $(ARGUMENTS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGUMENTS)

# Other libraries, whose pins contradict ours and each other's: an environment of their own.
bench-peers: $(PEERS)/ready

# After a change of dependencies: resolves pyproject.toml under constraints.txt and looks up the hashes.
requirements:
	test -x $(BIN)/python || .ci/venv $(VENV)
	$(BIN)/python .ci/requirements.py

# Faults planted in rules, mixing and pre-aggregation; hours for all of them, so give ARGUMENTS="--minutes 30" for a sample.
mutants: $(READY)
	$(BIN)/python -m campaigns.mutants $(ARGUMENTS)

# A million adversarial aggregations, damaged files, two hundred kills, an hour of load: hours in all. Each goes on where
# it was stopped, and leaves its counts in runs/campaigns.
campaign: $(READY)
	$(BIN)/python -m campaigns rows
	$(BIN)/python -m campaigns bytes
	$(BIN)/python -m campaigns kills
	$(BIN)/python -m campaigns races
	$(BIN)/python -m campaigns bombs
	$(BIN)/python -m campaigns special
	$(BIN)/python -m campaigns readme
	$(BIN)/python -m campaigns flower
	$(BIN)/python -m campaigns memory
	$(BIN)/python -m campaigns load
	$(BIN)/python -m campaigns.hostile.run

# Pages and tables that are written from classes and commands, and the site, in site/index.html, with the demo's report. A
# warning is an error.
docs: $(SITE)/ready
	$(BIN)/python docs/generate.py
	test -f results/demo/report.html || $(BIN)/python -m mixtailor demo
	$(SITE)/bin/python -m sphinx -W --keep-going --fresh-env --quiet -b html -d $(SITE)/doctrees docs site

clean:
	rm -rf $(VENV) $(PEERS) $(ENGINES) $(FLARE) $(PRIVATE) $(SITE) site docs/api/generated $(OTHERS:%=.venv-%)
	rm -rf .coverage* htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Touched last: an interrupted install is tried again, a finished one is never repeated.
# The project itself has no hash, and pip refuses to mix: it comes second, without dependencies of its own.
$(READY): pyproject.toml requirements.txt
	@echo "Setting up $(VENV): a few minutes, once."
	@test -x $(BIN)/python || .ci/venv $(VENV)
	@$(BIN)/python $(PIP) --no-deps --require-hashes --requirement requirements.txt
	@$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# A Python of their own, so $PYTHON does not count here.
.PRECIOUS: .venv-3.%/ready
.venv-3.%/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv-3.$*"
	@test -x .venv-3.$*/bin/python || PYTHON= .ci/venv .venv-3.$* 3.$*
	@.venv-3.$*/bin/python .ci/groups.py test > .venv-3.$*/test.txt
	@.venv-3.$*/bin/python $(PIP) --constraint constraints.txt --requirement .venv-3.$*/test.txt --editable ".[files,cli]"
	@touch $@

$(ENGINES)/ready: pyproject.toml constraints.txt
	@echo "Setting up $(ENGINES): a few minutes, once."
	@test -x $(ENGINES)/bin/python || .ci/venv $(ENGINES)
	@$(ENGINES)/bin/python .ci/groups.py test > $(ENGINES)/test.txt
	@grep -v '^opentelemetry' constraints.txt > $(ENGINES)/constraints.txt
	@$(ENGINES)/bin/python $(PIP) --constraint $(ENGINES)/constraints.txt --requirement $(ENGINES)/test.txt \
		--editable ".[files,cli,huggingface,lightning,torchft]" "peft>=0.21"
	@touch $@

$(FLARE)/ready: pyproject.toml constraints.txt
	@echo "Setting up $(FLARE): a few minutes, once."
	@test -x $(FLARE)/bin/python || .ci/venv $(FLARE)
	@$(FLARE)/bin/python .ci/groups.py test > $(FLARE)/test.txt
	@$(FLARE)/bin/python $(PIP) --constraint constraints.txt --requirement $(FLARE)/test.txt --editable ".[flare,train]"
	@touch $@

$(PRIVATE)/ready: pyproject.toml
	@echo "Setting up $(PRIVATE): a minute or two, once."
	@test -x $(PRIVATE)/bin/python || PYTHON= .ci/venv $(PRIVATE) 3.11
	@$(PRIVATE)/bin/python $(PIP) --editable ".[private]"
	@touch $@

# Sphinx, and behind it what $(VENV) has: the reference is made from the classes themselves, those of extras too.
$(SITE)/ready: $(READY)
	@echo "Setting up $(SITE)"
	@test -x $(SITE)/bin/python || $(BIN)/python -m venv $(SITE)
	@$(BIN)/python .ci/groups.py docs > $(SITE)/docs.txt
	@$(SITE)/bin/python $(PIP) --requirement $(SITE)/docs.txt
	@$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> "$$($(SITE)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/behind.pth"
	@touch $@

$(PEERS)/ready: benchmarks/peers/requirements.txt benchmarks/peers/requirements-as-they-are.txt
	test -x $(PEERS)/bin/python || .ci/venv $(PEERS)
	$(PEERS)/bin/python $(PIP) --requirement benchmarks/peers/requirements.txt
	$(PEERS)/bin/python $(PIP) --no-deps --ignore-requires-python \
		--requirement benchmarks/peers/requirements-as-they-are.txt
	touch $@
