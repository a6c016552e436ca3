# Everything that a developer or CI runs; `make help` lists it.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := .demo/digits.qnndbg
CHECKED ?= digits-8a8w rnet-16a8w silero-fp16
BASELINES := $(patsubst snapshots/%.baseline,%,$(wildcard snapshots/*.baseline))
# Not tests/tui: an application that starts sixty times takes half a minute.
FAST_TESTS := $(wildcard tests/unit tests/property tests/golden tests/corpus)

# Before the package, so that its extra finds this build in place and looks for no other.
TORCH := torch==2.13.0
# The weights of example:rnet. The package pins an old torch that only its code needs, not its files.
EXAMPLE_WEIGHTS := facenet-pytorch==2.6.0

# The emulator and small models run fastest on one thread each.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

.PHONY: venv
venv: $(STAMP) ## Make the virtual environment .venv, if missing or outdated

$(STAMP): pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "qnndbg: error: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1 || true)"; \
	    echo "hint: name another one, such as: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; } >&2
	@echo "==> 1/4 virtual environment $(VENV), of $$($(PYTHON) -V)"
	$(PYTHON) -m venv $(VENV)
	@echo "==> 2/4 $(TORCH)"
	$(BIN)/pip install $(TORCH)
	@echo "==> 3/4 qnndbg with ExecuTorch, the QNN libraries, the examples and the developer's tools"
	$(BIN)/pip install -e ".[qnn,examples,dev]"
	@echo "==> 4/4 the weights of example:rnet"
	$(BIN)/pip install --no-deps $(EXAMPLE_WEIGHTS)
	@touch $@
	@echo "==> $(VENV) is ready: $$($(BIN)/qnndbg --version)"

.PHONY: demo
demo: $(STAMP) ## Record the bundled example on the HTP emulator and print the report
	@echo "==> recording example:digits at 8a8w on the HTP emulator"
	@mkdir -p $(dir $(DEMO))
	$(BIN)/qnndbg record example:digits --precision 8a8w -o $(DEMO) --force
	@echo "==> to see this report again, which needs neither torch nor the emulator:"
	@echo "      $(BIN)/qnndbg show $(DEMO)"
	@echo "    as data, every layer of it:"
	@echo "      $(BIN)/qnndbg show $(DEMO) --format json"
	@echo "    to walk through it, from the answer down to single elements:"
	@echo "      $(BIN)/qnndbg tui $(DEMO)"
	@echo "    in a browser:"
	@echo "      $(BIN)/qnndbg show $(DEMO) --format html -o $(DEMO:.qnndbg=.html)"

.PHONY: check
check: $(STAMP) ## Hold the bundled examples against snapshots/; CHECKED=all for every one (minutes)
	@mkdir -p .demo
	@failed=""; for name in $(if $(filter all,$(CHECKED)),$(BASELINES),$(CHECKED)); do \
	    echo "==> $$name"; \
	    $(BIN)/qnndbg check "example:$${name%-*}" --precision "$${name##*-}" --baseline "snapshots/$$name.baseline" \
	        --policy snapshots/qnndbg.toml -o ".demo/$$name.qnndbg" --quiet || failed="$$failed $$name"; \
	done; [ -z "$$failed" ] || { echo "qnndbg: error: regressed or failed:$$failed" >&2; \
	    echo "hint: accept what is meant: qnndbg check .demo/NAME.qnndbg --baseline snapshots/NAME --update" >&2; \
	    exit 1; }

.PHONY: test
test: $(STAMP) ## Run all tests, those on the HTP emulator among them
	$(BIN)/pytest -n 2 --dist loadfile

.PHONY: tiny
tiny: $(STAMP) ## Run the fast tests only (under 20 s)
	$(BIN)/pytest -q -m "not emulator" $(FAST_TESTS)

.PHONY: lint
lint: $(STAMP) ## Check style, types and layering
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: bench
bench: $(STAMP) ## Time recordings, the viewer's start, a large difference; score some verdicts
	@mkdir -p .demo
	time $(BIN)/qnndbg record example:digits --precision 8a8w -o .demo/bench.qnndbg --force --quiet
	time $(BIN)/qnndbg show .demo/bench.qnndbg --format json >/dev/null
	$(BIN)/python -m benchmarks.tui_speed
	$(BIN)/python -m benchmarks.diff_cost
	$(BIN)/python -m benchmarks.capture_cost
	@echo "==> verdicts on seeded faults with known answers (all of them: python -m benchmarks.blame)"
	$(BIN)/python -m benchmarks.blame --count 28 --select 'clean_8|export_fp16|process_8|wrong|w_fp16|pad_' 2>/dev/null

.PHONY: sweep
sweep: $(STAMP) ## Record the op tests that ExecuTorch brings along; options in SWEEP="--limit 20"
	$(BIN)/python -m tests.sweep $(SWEEP)

.PHONY: clean
clean: ## Remove what the other targets made, except .venv
	rm -rf .demo build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find qnndbg tests -name __pycache__ -prune -exec rm -rf {} +
