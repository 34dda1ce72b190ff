# One-line targets, for people and for CI alike: `make help` lists them.
PYTHON ?= python3
ARGS ?=
RUN_STAMP := .venv/.ready-to-run
DEV_STAMP := .venv/.ready-to-develop
UV_COMPILE := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--annotation-style line --no-emit-index-url --custom-compile-command 'make lock'
RUN_INPUT := pyproject.toml --extra monitor --extra generate --group build
AS_TESTED := --upgrade --constraint requirements/dev.txt

.DEFAULT_GOAL := help
.PHONY: help setup run test static check bench conformance generate lock clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/\1 \2/' | while read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

setup: $(DEV_STAMP) ## Build .venv from the lock, with everything for development

run: $(RUN_STAMP) ## Start everything in one process (ARGS="--demo" for a simulated fleet)
	.venv/bin/inferwatch up $(ARGS)

test: setup ## Install what the end-to-end tests need, then run all tests (ARGS="-k name" for some)
	scripts/test-services
	.venv/bin/python -m pytest $(ARGS)

static: setup ## Lint, format, types, import direction, generated files are fresh
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo
	scripts/check-generated

check: static test ## Everything that CI runs: the static checks, then all tests

bench: setup ## Run the benchmarks
	.venv/bin/python -m bench $(ARGS)

conformance: setup ## Hold a table to the metrics that a release declares (FRAMEWORK=vllm RELEASE=0.33.0)
	.venv/bin/python -m conformance $(FRAMEWORK) $(RELEASE) $(ARGS)

generate: setup ## Write the generated rules, dashboards, reference pages and the table of fidelity
	.venv/bin/python -m inferwatch.generate
	.venv/bin/python -m inferwatch.reference.fidelity

lock: setup ## Write the lock files anew (ARGS="--upgrade" for newer versions)
	$(UV_COMPILE) $(ARGS) $(RUN_INPUT) --group dev --output-file requirements/dev.txt
	$(UV_COMPILE) $(AS_TESTED) $(RUN_INPUT) --output-file requirements/run.txt
	$(UV_COMPILE) $(AS_TESTED) pyproject.toml --output-file requirements/sidecar.txt
	$(UV_COMPILE) $(AS_TESTED) pyproject.toml --extra monitor --output-file requirements/monitor.txt
	$(UV_COMPILE) $(AS_TESTED) --group build --output-file requirements/build.txt

clean: ## Remove .venv, caches and build results
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_STAMP): requirements/run.txt pyproject.toml scripts/make-venv
	PYTHON=$(PYTHON) scripts/make-venv requirements/run.txt
	@touch $@

$(DEV_STAMP): requirements/dev.txt pyproject.toml scripts/make-venv
	PYTHON=$(PYTHON) scripts/make-venv requirements/dev.txt
	@touch $(RUN_STAMP) $@
