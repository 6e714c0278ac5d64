# `make demo` and `make test` each install everything they need into .venv and run: the demo the
# package alone, the tests also torch, Ray and the tools.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CORE := $(VENV)/.core
S3 := .venv-s3/.installed
TRITON := .venv-triton/.installed
# Without compiled modules on disk every process that a test starts compiles solscope again.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := pyproject.toml setup.py constraints.txt $(wildcard src/solscope/_native/*.cpp src/solscope/_native/*.h)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: machine demo test test-long s3 triton test-browser test-pages test-frontend fuzz locked sbom audit audit-scripts mutate check format generated docs web screenshots bench-ingest bench-corpus bench-dashboard dist dist-check clean

demo: $(CORE)
	$(BIN)/solscope show demo:vllm-b200

# Where tests run: processor, architecture, cores, memory, versions.
machine: $(STAMP)
	$(BIN)/python scripts/describe_machine.py

# With LONG=1 all but the browser tests at once: tests and fixtures are loaded once, and property tests do not begin with the few
# examples that are among the many.
test: $(STAMP) $(if $(LONG),s3 triton)
	$(if $(LONG),HYPOTHESIS_PROFILE=many) $(BIN)/pytest -n 2 --dist worksteal --ignore tests/browser -m "$(if $(LONG),,not long and) not browser"

test-long: $(STAMP) s3 triton
	HYPOTHESIS_PROFILE=many $(BIN)/pytest -n 2 --dist worksteal --ignore tests/browser -m "long or hypothesis"

# The S3 server of the long tests. Its packages contradict those in constraints.txt, so it runs on its own.
s3: $(S3)
$(S3): tests/s3-requirements.txt
	$(PYTHON) -m venv .venv-s3
	.venv-s3/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< \
		&& touch $@ || echo "moto cannot be installed: tests with an S3 server are skipped"

# Triton for its interpreter, which the long tests run kernels in. Beside the tests: torch would take it for a compiler.
triton: $(TRITON)
$(TRITON): tests/triton-requirements.txt | $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv-triton --requirement $< \
		&& touch $@ || echo "Triton cannot be installed: kernels are not interpreted"

test-browser: test-frontend test-pages

# The pages in Chromium, without the unit tests of the front end.
test-pages: $(STAMP)
	scripts/install-chromium
	$(BIN)/pytest -n 2 --dist loadfile -m browser tests/browser

# Types, lint and unit tests of the front end, where there is Node.
test-frontend:
	scripts/test-frontend

# Damage files at random and run every command on them; what fails is saved in fuzz-findings/.
fuzz: $(STAMP)
	$(BIN)/python scripts/fuzz.py --seconds $(or $(SECONDS),600)

# Do tests notice mistakes? Plant those of scripts/mutations.toml, one at a time: about half an hour.
mutate: $(STAMP)
	$(BIN)/python scripts/mutate.py

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Install as `make test` does, but only files whose hashes are in requirements.lock, and torch.
locked:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(INSTALL) torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(CORE) $(STAMP)

# Advisories about what is pinned; these two ask services on the network.
audit:
	@$(PYTHON) scripts/audit.py

audit-scripts:
	@$(PYTHON) scripts/audit.py --scripts

# What an installation consists of: sbom.json, in CycloneDX.
sbom: $(STAMP)
	$(BIN)/python scripts/sbom.py

# Everything that is written from the sources: the table and the reference of commands, schemas, the
# front end's types, the references of readers, operators and causes.
generated: $(STAMP)
	$(BIN)/python scripts/generate.py

# The documentation site, from the same Markdown files: site/index.html. A broken link fails the build.
# MkDocs gets an environment of its own, since the site needs nothing of solscope.
docs: $(VENV)-docs/.installed
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet

$(VENV)-docs/.installed: constraints.txt
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt mkdocs-material
	touch $@

# Rebuild the script and style of reports and dashboard (needs Node); what it writes is committed.
web: generated
	cd frontend && npm ci --no-fund --no-audit && npm run build

screenshots: $(STAMP)
	scripts/install-chromium
	PYTHONPATH=. $(BIN)/python scripts/screenshots.py

bench-ingest: $(STAMP)
	$(BIN)/python benchmarks/ingest.py

bench-corpus: $(STAMP)
	$(BIN)/python benchmarks/corpus.py

bench-dashboard: $(STAMP)
	scripts/install-chromium
	$(BIN)/python benchmarks/dashboard.py

# Build the sdist, the wheel for this platform and the one for all, and try them in empty environments.
dist-check:
	$(PYTHON) scripts/check_dist.py

dist:
	$(PYTHON) scripts/check_dist.py --keep dist

clean:
	rm -rf $(VENV) $(VENV)-docs $(VENV)-s3 $(VENV)-triton build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find src -name '*.so' -delete

$(CORE): $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	touch $@

$(STAMP): $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[dev]'
	touch $(CORE) $@
