# The commands that README, CONTRIBUTING and .ci/run name. `make` alone lists them.
#
# Two environments, which never meet: .venv in this clone (servegate, lm-eval, test tools) and the engine's own one outside of
# it (scripts/engine_env.sh). Neither is made before a target needs it.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo faults test test-fast check engine image format clean

PYTHON ?= python3
CANDIDATE ?= fp8
IMAGE ?= servegate:local
IMAGE_ARGS ?=
PYTEST_ARGS ?=
export PYTHON CANDIDATE

BIN := .venv/bin
PINS := requirements/core.txt requirements/eval.txt requirements/dev.txt
# The stamps carry a hash of what they were made from: a change of the pins, of the metadata or of Python makes a new stamp
# necessary, a fresh checkout with the same content does not.
INSTALLED := .venv/installed-$(shell { cat $(PINS); $(PYTHON) --version; } 2>/dev/null | sha256sum | cut -c1-12)
EDITABLE := .venv/editable-$(shell cat $(PINS) pyproject.toml 2>/dev/null | sha256sum | cut -c1-12)
SHELL_FILES := .ci/run $(wildcard scripts/*.sh scripts/ci/*.sh)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(EDITABLE) ## gate a real change on this CPU; CANDIDATE=fp8 | fp8-kv | max-num-seqs | broken
	@serving="examples/demo-cpu/serving/$$CANDIDATE.yaml"
	if [ ! -f "$$serving" ]; then
	  echo "make demo: no candidate '$$CANDIDATE'; there are: $$(cd examples/demo-cpu/serving && printf '%s ' *.yaml)" >&2
	  exit 2
	fi
	engine=$$(scripts/engine_env.sh)
	"$$(dirname "$$engine")/python" scripts/demo_model.py --damaged
	code=0
	$(BIN)/servegate run --config examples/demo-cpu/servegate.yaml --candidate "$$serving" --gate "demo-$$CANDIDATE" \
	  --engine "$$engine" --output servegate-runs --force || code=$$?
	# 0 pass, 1 fail, 3 review, 4 not comparable: the demo worked when there is a verdict, whichever it is.
	case $$code in
	  0 | 1 | 3 | 4) echo "make demo: a verdict was reached (servegate's exit code $$code); open" ;;
	  *) exit "$$code" ;;
	esac
	echo "$$PWD/servegate-runs/demo-$$CANDIDATE/report/report.html"

faults: $(EDITABLE) ## plant known faults in the demo's model and see each found by the real engine (about 10 minutes)
	@engine=$$(scripts/engine_env.sh)
	"$$(dirname "$$engine")/python" scripts/demo_model.py --damaged
	$(BIN)/python scripts/planted_faults.py --engine "$$engine"

test: $(EDITABLE) ## every test, the end-to-end test on a real vLLM included
	@engine=$$(scripts/engine_env.sh)
	"$$(dirname "$$engine")/python" scripts/demo_model.py --damaged
	export SERVEGATE_TEST_ENGINE="$$engine"
	$(BIN)/pytest -m "not end_to_end" -n auto $(PYTEST_ARGS)
	# Alone and in one process: these measure a real engine, which wants all the cores.
	$(BIN)/pytest -m end_to_end $(PYTEST_ARGS)

test-fast: $(EDITABLE) ## every test that needs neither engine nor service, in parallel
	@$(BIN)/pytest -m "not end_to_end and not service" -n auto $(PYTEST_ARGS)

check: $(EDITABLE) ## format, lint, strict types, import rules, dead code, shell, docs drift
	@run() { echo "make check: $$*"; "$(BIN)/$$@"; }
	run ruff format --check .
	run ruff check .
	run mypy --strict src
	run lint-imports
	run vulture
	run shellcheck $(SHELL_FILES)
	run python scripts/docs_drift.py
	run python scripts/config_reference.py --check
	run python examples/demo-cpu/make_problems.py --check

format: $(EDITABLE) ## format the code and mend what the linter can mend
	@$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

engine: ## make the engine's environment and the demo's model, which demo and test do by themselves
	@engine=$$(scripts/engine_env.sh)
	"$$(dirname "$$engine")/python" scripts/demo_model.py --damaged

image: ## build the container image (podman or docker; IMAGE=name:tag, IMAGE_ARGS="--build-arg ...")
	@builder=$$(command -v podman || command -v docker) || { echo "make image: neither podman nor docker is installed" >&2; exit 1; }
	"$$builder" build --tag "$(IMAGE)" $(IMAGE_ARGS) .

clean: ## remove .venv, .demo, caches and builds; runs and the engine's cache stay
	@rm -rf .venv .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED):
	@command -v "$$PYTHON" >/dev/null || { echo "make: no '$$PYTHON' found; set PYTHON to a Python of 3.11 or newer" >&2; exit 1; }
	"$$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	  echo "make: '$$PYTHON' is $$("$$PYTHON" --version); 3.11 or newer is needed: make PYTHON=python3.12 ..." >&2
	  exit 1
	}
	echo "make: making .venv (once, about a minute)" >&2
	rm -rf .venv
	"$$PYTHON" -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check $(addprefix -r ,$(PINS))
	touch $@

$(EDITABLE): $(INSTALLED)
	@rm -f .venv/editable-*
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps -e .
	touch $@

.ONESHELL:
