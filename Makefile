# `make quickstart` and `make test` need Python >= 3.11 and nothing else: each makes .venv and installs into it what is missing.
# PYTHON=python3.12 chooses an interpreter.

BIN := .venv/bin
# One thread a process, and threads that sleep when they wait: two busy OpenMP pools on two cores stall each other.
TEST_ENV := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist loadfile

.PHONY: help quickstart test slow smoke lint format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

quickstart: .venv/.installed ## train for a few minutes, see figures before and after, ask about a room
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash recipes/quickstart.sh

test: .venv/.installed lint ## ruff, then the default test suite
	@$(TEST_ENV) $(BIN)/python -m pytest $(PYTEST_ARGS)

slow: .venv/.installed ## the tests that take longer than ten seconds each
	@$(TEST_ENV) $(BIN)/python -m pytest -m "slow and not gpu" $(PYTEST_ARGS)

smoke: .venv/.deepspeed ## two processes, ZeRO-2 and bf16 on a CPU; installs DeepSpeed first, needs g++
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash recipes/smoke.sh

lint: .venv/.installed ## ruff only
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check

format: .venv/.installed ## let ruff put the code in order
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format

clean: ## remove .venv, caches and what the quickstart wrote
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis runs/quickstart

.venv/.installed: pyproject.toml constraints-cpu.txt tools/install.sh
	@bash tools/install.sh
	@touch $@

.venv/.deepspeed: .venv/.installed
	@bash tools/install.sh deepspeed
	@touch $@
