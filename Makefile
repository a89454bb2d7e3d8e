# Each target does its own set-up: a virtual environment in .venv, filled from the hashed requirements.txt.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

PEERS := .venv-peers

.PHONY: demo test lint bench bench-peers requirements mutants campaign docs clean

demo: $(READY)
	$(BIN)/python -m mixtailor demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 -q

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
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
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
	$(BIN)/python -m campaigns load
	$(BIN)/python -m campaigns.hostile.run

docs: $(READY)
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Touched last: an interrupted install is tried again, a finished one is never repeated.
# The project itself has no hash, and pip refuses to mix: it comes second, without dependencies of its own.
$(READY): pyproject.toml requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(PEERS)/ready: benchmarks/peers/requirements.txt benchmarks/peers/requirements-as-they-are.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --requirement benchmarks/peers/requirements.txt
	$(PEERS)/bin/python -m pip install --quiet --no-deps --ignore-requires-python \
		--requirement benchmarks/peers/requirements-as-they-are.txt
	touch $@
