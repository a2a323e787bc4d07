# `make help` lists what there is to do. Needs Python 3.10 or newer; everything else is installed
# into environments inside this folder.

PYTHON ?= python3
PORT ?= 9000
REST_PORT ?= 8000
BASE ?=
SOAK_MINUTES ?= 30
FUZZ_SECONDS ?= 60
SUITES ?=
TF_SUITE ?=
DOCKER ?= docker
IMAGE ?= ie-serving:latest
BASE_IMAGE ?=

FUZZED := $(addprefix tests/functional/test_fuzz,.py _models.py _graphs.py _batches.py _memory.py)

# Files side by side, in forks of the process that has collected all tests (tests/distribution.py). A file's tests
# share servers, so they stay together. Half of the processes, rounded down, begin at the end, with the unit tests,
# which compute while the functional tests wait: for a store, a back-off or the end of a process. Three for two
# processors. What is skipped is listed at the end, with its reason.
# One process of the tests that crashed or hung is replaced, and its test tried again; not a second one.
TEST_WORKERS ?= 3
IN_PARALLEL := --processes=$(TEST_WORKERS) -rs

# Of what the tests marked `deployed` are. `make test` leaves these out where nothing here differs from
# main; ALL=1, as in CI, and `make test_deployed` run them.
ALL ?=
DEPLOYED = deploy Dockerfile pyproject.toml README.md examples docs/start \
	$(addprefix docs/guide/,clients.md hooks.md libraries.md own-code.md production.md python-client.md streams.md) \
	ie_serving/client ie_serving/commands ie_serving/config/schema ie_serving/wire/clients \
	ie_serving/server/fronts/page $(shell grep -rlE --include=*.py 'mark\.deployed|tests\.functional\.deployed' tests)
HAVE_CHANGED = $(shell git diff --quiet $$(git merge-base HEAD main 2> /dev/null) -- $(DEPLOYED) || echo yes)

BUILD_INPUTS := pyproject.toml setup.py $(wildcard ie_serving/wire/protobuf/protos/*.proto)
SOURCES := ie_serving tests examples benchmarks deploy setup.py
BIN := .venv/bin
DEV := .venv-dev/bin
PAGES := README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs examples benchmarks deploy/site/wide.css
SCHEMAS := $(addprefix @kubernetes-models/,gateway-api@2 keda@2 prometheus-operator@6)
PROGRAMS := chromium default-jdk-headless fish golang-go haproxy mosquitto nginx-light nodejs prometheus shellcheck zsh

# As CPython's own tests: beside others, on a machine that others use too, one of 13,000 may be late.
# What fails again fails. Only where all tests have run: pytest ends with 1 then, and with another
# number where it was interrupted or a worker could not go on.
AGAIN := [ $$? -eq 1 ] && $(DEV)/python -m pytest --last-failed --last-failed-no-failures none --exitfirst tests

# Keep compiled modules, whatever the environment says: else each of the hundreds of processes of the
# tests compiles the server's modules again, and each run the tests.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help size run venv test test_deployed cpu_kinds canaries evidence programs unit conformance soak fuzz suites zoo drivers style format docs api configuration page sample bench-quick bench bench-batching bench-strain bench-stall bench-shadow bench-fleet fleet-simulation bench-hosted bench-share bench-kernels bench-workers bench-scale bench-pythons bench-tls bench-costs bench-protocols bench-verify \
	walk manifests docker_build docker_check docker_lock release_check clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z_-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: venv ## serve the sample on PORT (gRPC, 9000) and REST_PORT (8000); Ctrl-C stops
	@printf '\nOnce it says "server listens on port", type in a second terminal, in this folder:\n\n'
	@printf '  curl -s -d @examples/digits/request.json '
	@printf 'http://localhost:$(REST_PORT)/v1/models/digits:predict -w "\\ntrue digit: 1\\n"\n'
	@printf '  $(BIN)/python examples/digits/client_grpc.py --port $(PORT)\n\n'
	@exec $(BIN)/ie_serving model --model_name digits --model_path examples/models/digits \
		--port $(PORT) --rest_port $(REST_PORT)

venv: .venv/.installed ## make .venv with the server in it

.venv/.installed: $(BUILD_INPUTS)
	$(call environment,.venv)
	.venv/bin/pip install --quiet --editable .
	@touch $@

.venv-dev/.installed: $(BUILD_INPUTS)
	$(call environment,.venv-dev)
	$(DEV)/pip install --quiet --editable '.[test,dev]'
	# Without their dependencies: they ask for the larger of TensorFlow's two packages.
	$(DEV)/pip install --quiet --no-deps 'tensorflow-serving-api==2.21.*' 'tf-keras==2.21.*'
	# Schemas of custom resources of Kubernetes, and Azurite. KServe's asks for a web server, which nothing here starts.
	$(DEV)/pip install --quiet --no-deps --ignore-requires-python 'kserve==0.21.*'
	$(if $(shell command -v npm),-npm install --prefix .venv-dev/published --ignore-scripts --no-audit --no-fund \
		--loglevel error $(SCHEMAS) azurite@3)
	@touch $@

define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is \
needed, this is " + sys.version.split()[0] + ": make PYTHON=/path/to/newer ...")'
$(PYTHON) -m venv $(1)
$(1)/bin/pip install --quiet --upgrade pip
endef

test: .venv-dev/.installed ## run every test but those of soak and fuzz, and those marked deployed where what they test is as in main (ALL=1: these too); what failed once more, alone
	$(DEV)/python -m pytest $(IN_PARALLEL) $(if $(ALL)$(HAVE_CHANGED),,-m 'not deployed and not soak and not fuzz and not release') tests \
		|| { $(AGAIN); }

test_deployed: .venv-dev/.installed ## run the tests of manifests, images, proxies, programs in other languages, examples, and the page in a browser
	$(DEV)/python -m pytest $(IN_PARALLEL) -m 'deployed and not soak and not fuzz and not release' tests

programs: ## install the programs of others that tests talk to; as root, on Debian
	apt-get -qq update
	# Runlevel 1: none of them is to run as a service.
	RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $(PROGRAMS)

cpu_kinds: .venv-dev/.installed ## run the tests of the engine as on each lesser kind of CPU that this one contains
	@for kind in $$($(DEV)/python -m tests.cpu_kinds); do \
		echo "as on a CPU of the kind $$kind:"; \
		ONEDNN_MAX_CPU_ISA=$$kind $(DEV)/python -m pytest $(IN_PARALLEL) tests/unit/engines/openvino tests/unit/engines/savedmodel || exit; \
	done

unit: .venv-dev/.installed ## run the fast tests only
	$(DEV)/python -m pytest $(IN_PARALLEL) tests/unit

conformance: .venv-dev/.installed ## hold both ports to RFC 9113, 7541, 9112 and 9110, case by case
	$(DEV)/python -m pytest tests/functional/protocols

soak: .venv-dev/.installed ## run the tests that take minutes: a store away, 300 MB served, memory over 1,000,000 requests, SOAK_MINUTES (30) of kills, switches, reloads; and the cases and repetitions that `make test` leaves out (tests/thinning.py)
	SOAK_MINUTES=$(SOAK_MINUTES) $(DEV)/python -m pytest -o faulthandler_timeout=0 -m soak tests

fuzz: .venv-dev/.installed ## try 20 times as many examples of each property, then for FUZZ_SECONDS (60) each: nearly right bytes on both ports, odd values for models, random graphs, batches whose clients are wrong or leave, memory that holds other clients' numbers
	$(DEV)/python -m pytest $(IN_PARALLEL) --hypothesis-profile=thorough --timeout=600 \
		-m 'hypothesis and not soak and not fuzz and not release' tests
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(DEV)/python -m pytest -o faulthandler_timeout=0 -m fuzz -rP $(FUZZED)

canaries: .venv-dev/.installed ## ask OpenVINO alone whether each fault of docs/reference/openvino-faults.md is still there
	$(DEV)/python -m tests.canaries $(CANARIES)

suites: .venv-dev/.installed ## serve ONNX's own tests in each mode, and each operation of TensorFlow, and compare with tests/suites/*.txt; SUITES="--sizes open --write" and the like (--help)
	TF_CPP_MIN_LOG_LEVEL=3 $(DEV)/python -m tests.suites $(SUITES)
	TF_CPP_MIN_LOG_LEVEL=3 $(DEV)/python -m tests.suites.tensorflow $(TF_SUITE)

zoo: .venv-dev/.installed ## serve models that others published in packages of PyPI, and compare with their own runtimes; ZOO="--only 'hey*'"
	TF_CPP_MIN_LOG_LEVEL=3 $(DEV)/python -m tests.zoo $(ZOO)

evidence: .venv-dev/.installed ## tell which wrong answers to ONNX's tests the comparison with onnxruntime finds, with all rewriting and refusals off
	TF_CPP_MIN_LOG_LEVEL=3 $(DEV)/python -m tests.suites.evidence $(EVIDENCE)

drivers: .venv-dev/.installed ## test the drivers whose libraries are too large for every run: catboost, pandas, torch, pypmml, which needs Java, and exports of jax
	# jax 0.7 and newer export to XLA alone.
	$(DEV)/pip install --quiet --editable '.[catboost,pandas,pmml,pytorch]' 'jax>=0.4.30,<0.7'
	$(DEV)/python -m pytest -rs tests/unit/engines/tabular tests/unit/engines/pmml tests/unit/engines/pytorch
	# In a process of its own: it imports TensorFlow, beside which PyTorch aborts (both bring LLVM).
	$(DEV)/python -m pytest -rs tests/functional/test_formats.py tests/functional/test_torch_state.py \
		tests/functional/test_jax.py tests/functional/test_readme.py

style: .venv-dev/.installed ## check format, lint and types
	$(DEV)/ruff format --check $(SOURCES)
	$(DEV)/ruff check $(SOURCES)
	$(DEV)/mypy --strict ie_serving

format: .venv-dev/.installed ## format the code and fix what lint can fix
	$(DEV)/ruff format $(SOURCES)
	$(DEV)/ruff check --fix $(SOURCES)

docs: .venv-docs/.installed ## build the pages as a site with search in build/site, and fail where a link leads nowhere
	@mkdir -p build/pages
	@ln -sfn $(foreach page,$(PAGES),../../$(page)) build/pages
	.venv-docs/bin/mkdocs build --strict --config-file deploy/site/mkdocs.yml

.venv-docs/.installed: pyproject.toml
	$(call environment,.venv-docs)
	.venv-docs/bin/pip install --quiet --group docs
	@touch $@

api: .venv-dev/.installed ## write docs/reference/api and docs/guide/clients.md from the conformance table
	$(DEV)/python -m tests.functional.conformance.document

configuration: .venv-dev/.installed ## write the tables of the settings, of built-in steps and of other servers' flags into docs/
	$(DEV)/python -m tests.unit.config.document

page: .venv-dev/.installed ## take the pictures of docs/guide/page.md; needs Debian's chromium
	$(DEV)/python -m tests.functional.page_pictures

sample: .venv-dev/.installed ## train the sample models again
	$(DEV)/python examples/digits/train.py

bench-quick: ## measure the sample in two minutes; BASE=<git revision> compares with that one
	$(PYTHON) -m benchmarks quick $(if $(BASE),--base $(BASE))

bench: ## measure every case beside other servers; takes half an hour
	$(PYTHON) -m benchmarks full

manifests: .venv-dev/.installed ## write deploy/kubernetes from the chart, by Helm's own engine
	$(DEV)/python deploy/helm/render.py

release_check: style docs docker_check ## build what is released twice, install it where nothing else is, and use it; into dist/
	$(DEV)/python -m pytest -rs -m release tests/functional/test_release.py
	$(DEV)/python deploy/release.py

docker_build: ## build IMAGE (ie-serving:latest), on BASE_IMAGE and with EXTRAS (tensorflow) if given
	$(DOCKER) build --tag $(IMAGE)$(if $(EXTRAS),-$(EXTRAS)) \
		$(if $(BASE_IMAGE),--build-arg BASE=$(BASE_IMAGE)) \
		$(if $(EXTRAS),--build-arg EXTRAS=$(EXTRAS)) .

docker_check: .venv-dev/.installed ## build the image without an engine and use it; as root, on Debian
	$(DEV)/hadolint Dockerfile
	deploy/container/check.sh $(DEV)/python

docker_lock: .venv-dev/.installed ## renew the versions and hashes of the image's packages
	$(call lock,$(IMAGE_EXTRAS) pyproject.toml,requirements.txt)
	$(call lock,$(IMAGE_EXTRAS) --extra tensorflow --constraint deploy/container/requirements.txt \
		pyproject.toml,tensorflow-requirements.txt)
	$(call lock,deploy/container/build-requirements.in,build-requirements.txt)

IMAGE_EXTRAS = --extra azure --extra jwt --extra onnxruntime

define lock
$(DEV)/pip install --quiet uv
$(DEV)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --upgrade \
	--no-annotate --no-emit-package openvino-telemetry --custom-compile-command 'make docker_lock' \
	--output-file deploy/container/$(2) $(1)
endef

bench-strain: ## measure small requests beside large ones, and beside 1,000 models
	$(PYTHON) -m benchmarks strain

bench-stall: ## measure small requests beside a model of 500 MB that is loaded and unloaded again and again
	$(PYTHON) -m benchmarks stall

bench-batching: ## measure what batches of requests win, at concurrency 1 to 256
	$(PYTHON) -m benchmarks batching

bench-kernels: ## measure Python code that answers: processes, batches, instances, calls that hang
	$(PYTHON) -m benchmarks kernels

bench-tls: ## measure what TLS costs a request and a connection, beside plain ports
	$(PYTHON) -m benchmarks tls

bench-costs: ## measure what metrics, the access log and API keys cost a small request
	$(PYTHON) -m benchmarks costs

bench-shadow: ## measure requests to a version beside a shadow that takes ten times as long, and without it
	$(PYTHON) -m benchmarks shadow

bench-fleet: ## measure 2,000 models on demand under a budget that holds 200, by Zipf's law; FLEET="--models 10000 --asked 2000 --seconds 600"
	$(PYTHON) -m benchmarks fleet $(FLEET)

fleet-simulation: .venv-dev/.installed ## predict hits and loads of models on demand on several servers; FLEET="--models 1000000 --replicas 20"
	$(DEV)/python benchmarks/fleet_simulation.py $(FLEET)

bench-share: ## measure ResNet-50's shape beside benchmark_app, and under a quota of one processor; as root
	$(PYTHON) -m benchmarks share

bench-workers: ## measure two workers beside one: requests, processor time, memory, evenness
	$(PYTHON) -m benchmarks workers

bench-scale: ## measure 1, 2, 4 ... workers, up to the processors, and the share that they do not shorten
	$(PYTHON) -m benchmarks workers --scale

bench-pythons: ## measure the sample by other interpreters: PYTHONS="python3.12 python3.13"
	$(PYTHON) -m benchmarks quick --pythons $(PYTHONS)

bench-protocols: ## measure a small request by the Open Inference Protocol beside Predict, over gRPC
	$(PYTHON) -m benchmarks protocols

bench-hosted: .venv-dev/.installed ## measure strings, Examples and images beside TensorFlow in process; BASE=<git revision> as above
	$(DEV)/python -m benchmarks.hosted $(if $(BASE),--base $(BASE))

bench-verify: .venv-dev/.installed ## measure how much longer ResNet-50's shape loads for being compared
	$(DEV)/python -m benchmarks.verification

size: ## print how many lines of Python the product, compat/ and the tests have, beside their budget
	@for part in "core ie_serving 84000" "compat ie_serving/compat 7000" "tests tests 88000"; do \
	set -- $$part; lines=$$(git ls-files "$$2/*.py" | if [ $$1 = core ]; then grep -v /compat/; else cat; fi \
	| xargs cat | wc -l); echo "$$1: $$lines lines, budget $$3"; done

walk: .venv-dev/.installed ## print the way of a small request, and write it into docs/design/request-path.md
	$(DEV)/python -m benchmarks.walk

clean: ## remove environments, builds and caches
	rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find ie_serving tests -type d -empty -delete
