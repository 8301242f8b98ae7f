# Needs Python 3.11 or newer with venv, make and git. Everything else goes into .venv, from the lock files.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOCK_TOOL := pip-tools==7.6.2
AUDIT_TOOLS := pip-audit==2.10.1 cyclonedx-bom==7.5.0 pip-licenses==5.5.5
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit("elasticd needs Python 3.11 or newer; %s is %d.%d: make PYTHON=python3.11" % \
	(sys.executable, sys.version_info[0], sys.version_info[1]) if sys.version_info < (3, 11) else 0)'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help pictures demo test test-all decisions e2e faults parity bench reproduce lint reference site audit lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: .venv/forecast ## run elasticd on a simulated cluster, with its page (DEMO_PORT=9464); Ctrl-C stops it
	@exec sh config/demo/demo.sh $(BIN)/elasticd

# Bytecode is kept, whatever the environment says: otherwise each worker compiles all tests, and each process that they start all of elasticd.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --dist worksteal
test: .venv/dev ## run the fast tests that need nothing but Python
	$(PYTEST) --hypothesis-profile=$(or $(HYPOTHESIS),few) -m "not e2e and not slow" -n $(or $(WORKERS),2) $(ARGS)

# More at a time than there are cores, and three on two: many wait for processes that they have started. HYPOTHESIS=thorough: six times as many examples.
CORES = $$(nproc 2>/dev/null || echo 4)
test-all: .venv/dev ## run these and the slow ones: long simulations, properties with many examples
	$(PYTEST) --hypothesis-profile=$(or $(HYPOTHESIS),quick) -m "not e2e" -n $(or $(WORKERS),$(shell cores=$(CORES); echo $$((cores > 2 ? cores * 3 / 2 : 3)))) $(ARGS)

# Which Kubernetes: make e2e KUBE=1.36.2, or KUBEBUILDER_ASSETS=FOLDER make e2e; else 1.20.2. Where it is got from: tests/kube/fetch.py.
e2e: .venv/dev ## run the end-to-end tests on a real control plane, downloaded on first use (KUBE=1.36.2: another version)
	PYTHONPATH=. $(BIN)/python tests/kube/fetch.py
	$(BIN)/pytest -m e2e -n 3 --dist loadfile --no-loadscope-reorder --timeout 300 --junit-xml build/e2e.xml $(ARGS)

# LONG=1: two hours. SEED=N repeats what began with this seed.
faults: .venv/dev ## run random faults against daemons on a real control plane for a quarter of an hour, and check that nothing is lost
	PYTHONPATH=. $(BIN)/python tests/kube/fetch.py
	$(BIN)/python -m tests.faults --seconds $(if $(LONG),7200,900) $(if $(SEED),--seed $(SEED)) $(ARGS)

decisions: .venv/dev ## compare the decisions of simulated clusters with the recorded ones (ARGS=--record: record them again)
	$(BIN)/python -m tests.decisions $(ARGS)

parity: .venv/dev ## compare with the real HPA controller on the same cluster
	PYTHONPATH=. $(BIN)/python tests/kube/fetch.py
	$(BIN)/pytest -m e2e tests/kube/test_parity.py -s $(ARGS)

bench: .venv/dev ## measure what decisions, forecasts, polls and messages cost, and the time from a sensor to a decision (SECONDS=60 of messages)
	PYTHONPATH=. $(BIN)/python tests/kube/fetch.py
	PYTHONPATH=. $(BIN)/python tests/bench/steady.py
	PYTHONPATH=. $(BIN)/python tests/bench/page.py
	PYTHONPATH=. $(BIN)/python tests/bench/decide.py
	PYTHONPATH=. $(BIN)/python tests/bench/journal.py
	PYTHONPATH=. $(BIN)/python tests/bench/placing.py
	PYTHONPATH=. $(BIN)/python tests/bench/rebalance.py
	PYTHONPATH=. $(BIN)/python tests/bench/backtest.py
	PYTHONPATH=. $(BIN)/python tests/bench/eagle.py
	PYTHONPATH=. $(BIN)/python tests/bench/forecast.py
	PYTHONPATH=. $(BIN)/python tests/bench/prometheus.py
	PYTHONPATH=. $(BIN)/python tests/bench/mqtt.py $(or $(SECONDS),60)
	PYTHONPATH=. $(BIN)/python tests/bench/latency.py
	PYTHONPATH=. $(BIN)/python tests/bench/bind.py
	PYTHONPATH=. $(BIN)/python tests/bench/surge.py

pictures: .venv/dev ## take the pictures of the status page in docs/pictures again, in a headless Chromium
	PYTHONPATH=. $(BIN)/python -m tests.pictures

# What was measured is kept in build/, so that one that was interrupted goes on where it was.
reproduce: .venv/forecast ## measure the papers that elasticd implements again (ARGS='bald-eagle --seeds 10', --markdown, --json)
	@exec $(BIN)/elasticd reproduce --study build/papers $(ARGS)

lint: .venv/dev ## check style, types, import contracts and the length of functions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/house.py
	$(BIN)/python -m tests.reference --check

reference: .venv/dev ## write docs/reference, the man page and the completions from the code
	$(BIN)/python -m tests.reference

site: .venv/dev ## make the documentation as a site, in build/site, and check its links
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html -d build/site-trees docs build/site
	cp build/site/README.html build/site/index.html

# What elasticd runs with, its forecasts included. A licence that is not among these is looked at by a person first.
AUDITED := requirements-forecast.lock
LICENCES := MIT;BSD;Apache;PSF;Python Software Foundation;MPL-2.0;MPL 2.0;0BSD;Zlib;CC0
audit: .venv/dev build/audit ## check licences and known vulnerabilities of all that is installed with elasticd, write build/sbom.json
	build/audit/bin/cyclonedx-py requirements $(AUDITED) --of JSON -o build/sbom.json
	build/audit/bin/pip-licenses --python $(BIN)/python --from=mixed --partial-match --allow-only="$(LICENCES)" --format=markdown \
		--packages $$(sed -n 's/^\([a-z0-9_-]*\)==.*/\1/p' $(AUDITED)) --output-file build/licences.md
	rm -f build/vulnerabilities.json
	-build/audit/bin/pip-audit --disable-pip --require-hashes -r $(AUDITED) -f json -o build/vulnerabilities.json --progress-spinner off --timeout 5
	$(BIN)/python tests/audit.py build/vulnerabilities.json

build/audit: Makefile
	$(PYTHON) -m venv --clear $@
	$@/bin/python -m pip --disable-pip-version-check --quiet --timeout 20 --retries 1 install $(AUDIT_TOOLS)
	@touch $@

# The hashes must be those of the public index's files, so whatever else pip is configured to look at is left out.
COMPILE = env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null CUSTOM_COMPILE_COMMAND="make lock" \
	build/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links \
	--no-emit-trusted-host --no-emit-options --build-deps-for editable $(if $(UPGRADE),--upgrade)

lock: ## update the three lock files (UPGRADE=1: to the newest versions)
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip --disable-pip-version-check --quiet install "$(LOCK_TOOL)"
	$(COMPILE) --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra forecast --constraint requirements.lock --output-file requirements-forecast.lock pyproject.toml
	$(COMPILE) --extra dev --constraint requirements-forecast.lock --output-file requirements-dev.lock pyproject.toml

# One environment, filled in three steps, so that the first demo waits only for what the daemon and its forecasts need.
$(BIN)/python:
	@$(CHECK_PYTHON)
	@echo "elasticd is installed into .venv first, from the lock files: about a minute"
	$(PYTHON) -m venv --clear .venv

.venv/run: requirements.lock pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes --requirement requirements.lock
	@rm -rf elasticd.egg-info
	$(PIP) install --no-index --no-build-isolation --no-deps --editable .
	mkdir -p .venv/names && ln -sfn ../../plugins .venv/names/elasticd_plugins
	@touch $@

.venv/forecast: .venv/run requirements-forecast.lock
	$(PIP) install --require-hashes --requirement requirements-forecast.lock
	@touch $@

.venv/dev: .venv/run requirements-dev.lock
	$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

clean: ## remove everything that make, the tests and the tools have written
	rm -rf .venv build dist elasticd.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find elasticd plugins tests -name __pycache__ -type d -prune -exec rm -rf {} +
