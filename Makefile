# Every task of the project. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
# Every run of the tests would rewrite and compile all of their assertions again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# uv takes three seconds of CPU; pip, which compiles ten seconds of bytecode alone, does it where uv cannot: an index that
# only pip's settings name.
.venv/.dependencies: requirements.lock
	@echo "installing into .venv: one to three minutes the first time"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	awk '/^[^ ]/ { uv = /^uv==/ } uv' requirements.lock > .venv/uv.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r .venv/uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock \
	    || $(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@touch $@

# What was compiled would hide an edited source, so every task that installs builds it again first.
TYPED := $(wildcard audit/*.pxd codec/*.pxd codec/*/*.pxd proxy/*/*.pxd proxy/*/*/*.pxd schemas/*.pxd schemas/*/*.pxd)
.venv/.installed: .venv/.dependencies pyproject.toml setup.py codec/compiled.py $(TYPED) $(TYPED:.pxd=.py)
	find audit codec proxy schemas -name '*.so' -delete
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: .venv/.installed ## install everything into .venv

# What unit tests and the proxy do without. The archive of loaded classes makes a session start in a third of the time.
SPARK_CLASSES := $(abspath .venv/spark.jsa)
SPARK_SHORT := -Xlog:disable -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=200m -Djdk.lang.Process.launchMechanism=VFORK
.venv/.spark: .venv/.installed requirements-pipeline.lock pipeline/pom.xml pipeline/jars.sha256
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-pipeline.lock
	$(BIN)/python -m kafka_sidecar.pipeline jars
	rm -f $(SPARK_CLASSES)
	SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=$(SPARK_CLASSES) $(SPARK_SHORT)" PYTHONPATH=tests $(BIN)/python tests/pipeline/warm_up.py
	@touch $@

.PHONY: spark-install
spark-install: .venv/.spark ## Spark and its Kafka connector into .venv (0.8 GB; a JDK and Maven)

.PHONY: spark spark-matrix
spark: spark-install kafka ## the tests of the pipeline
spark-matrix: spark-install kafka ## the same with a driver that dies at each of its writes
spark: SPARK_TESTS := not matrix
spark-matrix: SPARK_TESTS := matrix or not matrix
spark spark-matrix:
	SPARK_SUBMIT_OPTS="-XX:SharedArchiveFile=$(SPARK_CLASSES) $(SPARK_SHORT)" $(BIN)/pytest --quiet -m "$(SPARK_TESTS)" \
	    --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/pipeline src/kafka_sidecar/pipeline

.PHONY: demo
demo: install ## a cluster, a sidecar, a producer and a consumer: watch records pass (no JDK needed)
	$(BIN)/python examples/demo.py

.PHONY: demo-page
demo-page: install ## the demo that goes on until Ctrl-C, with the address of the sidecar's page
	$(BIN)/python examples/demo.py --page

.PHONY: demo-pipeline
demo-pipeline: spark-install kafka ## a broker, three sidecars, faults on purpose: the pipeline names them (a JDK and Maven)
	PYTHONPATH=src:tests $(BIN)/python examples/audit_demo.py

.PHONY: test test-all
test: install ## what CI runs: all but the matrix, what is slow, and most examples
	$(MAKE) --no-print-directory --jobs=3 --output-sync=target kafka-ready check programs
	$(MAKE) --no-print-directory unit integration-core coverage
test-all: export BOTH_LOOPS = yes
test-all: export HYPOTHESIS_PROFILE = repeatable
test-all: export SLOW =
test-all: install check unit unit-pure programs benches integration-core coverage ## the same and more: both event loops, what is slow, all examples, benches

.PHONY: check
check: install ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports --no-cache

.PHONY: format
format: install ## style, as far as ruff mends it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# In Debian's Chromium: an installed one, or its packages unpacked into .cache, which needs no root.
.PHONY: browser browser-test page-pictures
.venv/.browser: .venv/.installed requirements-browser.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-browser.lock
	@touch $@

browser: .venv/.browser ## Chromium and axe into .cache/browser (apt or an installed Chromium, and npm)
	bash tests/browser/fetch.sh
browser-test: install kafka browser docs ## in a real browser: the page of the admin port with a real broker, the site at two widths
	$(BIN)/pytest -m "browser" tests/browser tests/site
page-pictures: install kafka browser ## a picture of each view of the page, from a real run, into docs/images
	PYTHONPATH=tests $(BIN)/python -m browser.pictures

UPLOT := 1.6.32
PAGE := proxy/server/admin/live/page
.PHONY: vendor-page
vendor-page: ## the page's library for charts, of the version above, with its licence and checksums (npm)
	rm -rf .cache/uplot && mkdir -p .cache/uplot
	cd .cache/uplot && npm pack --silent uplot@$(UPLOT) > /dev/null && tar xzf *.tgz
	cp $(addprefix .cache/uplot/package/dist/,uPlot.iife.min.js uPlot.min.css) $(PAGE)/
	cp .cache/uplot/package/LICENSE $(PAGE)/uPlot.LICENSE
	cd $(PAGE) && sha256sum uPlot.iife.min.js uPlot.min.css uPlot.LICENSE > uPlot.sha256

.PHONY: picture
picture: install ## the folders and their imports, into docs/design.md
	@cd tests && ../$(BIN)/python -m support.structure

.PHONY: definitions
definitions: install ## Kafka's own message definitions by Maven, the test suite of JSON Schema by pip, into .cache
	@cd tests && ../$(BIN)/python -c "from harness.definitions import NEWEST_CLIENTS, OLD_CLIENTS, fetched; fetched(NEWEST_CLIENTS); fetched(OLD_CLIENTS)"
	@cd tests && ../$(BIN)/python -c "from harness.json_schema_suite import fetched; fetched()"

# `make spark` installs what these need.
NOT_SPARK := --ignore=tests/pipeline --ignore=src/kafka_sidecar/pipeline
# pytest-xdist spends a quarter of the time on so many short tests: processes have folders instead. They are more than
# the cores, as many tests wait; what no part has is in the first.
UNIT = "not integration and not matrix and not program and not chart and not image and not monitoring and not browser and not site $(SLOW)"
# Long tests, most of whose rules others prove too, in less time.
SLOW ?= and not slow
PARTS := 1 2 3 4 5
PART_2 := tests/proxy/server tests/golden tests/policies tests/interceptors
PART_3 := $(addprefix tests/proxy/,config relay runtime telemetry) $(wildcard tests/proxy/test_*.py)
PART_4 := tests/schemas tests/codec tests/proxy/security
PART_5 := $(addprefix tests/proxy/,cli exchanges features)
PART_1 := tests src $(addprefix --ignore=,$(PART_2) $(PART_3) $(PART_4) $(PART_5)) $(NOT_SPARK)
.PHONY: unit $(addprefix unit-,$(PARTS))
unit: install definitions ## the tests that need no broker and run no program
	$(MAKE) --no-print-directory --jobs=$(words $(PARTS)) --output-sync=target $(addprefix unit-,$(PARTS))
$(addprefix unit-,$(PARTS)):
	$(BIN)/pytest --quiet -m $(UNIT) $($(subst unit-,PART_,$@))

# What compiled modules are in, or under: tested once more as Python sources.
ON_BOTH_BUILDS := $(wildcard tests/codec/test_compiled.py tests/codec/test_crc_parts.py tests/codec/test_envelope.py tests/codec/test_fetch_counts.py tests/codec/test_fetch_positions.py tests/codec/test_share_fetch_counts.py tests/codec/test_glance.py tests/codec/test_group_requests.py tests/codec/test_large_bytes.py tests/codec/test_longs.py tests/codec/test_produce_counts.py tests/codec/test_produce_notes.py tests/codec/test_record_sizes.py tests/codec/test_response_tags.py tests/codec/test_scan.py tests/schemas tests/codec/json tests/codec/records tests/policies tests/audit tests/proxy/features/auditing tests/proxy/features/rate_limits tests/proxy/nodes/test_endpoints.py)
.PHONY: unit-pure
unit-pure: install ## tests of compiled modules again, on their Python sources
	KAFKA_SIDECAR_PURE=1 $(BIN)/pytest --quiet --numprocesses auto --maxprocesses 4 -m $(UNIT) $(ON_BOTH_BUILDS)

# Compiled code cannot be measured. Properties and parametrised tests run with few examples, and tests of documents, the
# chart and what else is no code of the packages do not, nor those of bulk: what they find is for the tasks above.
COVERAGE := .cache/coverage
NO_CODE := $(addprefix --ignore=,$(wildcard tests/test_*.py) $(addprefix tests/,artefacts bench chart examples hostile monitoring mutants))
.PHONY: coverage $(addprefix coverage-,$(PARTS))
coverage: install definitions ## lines and branches, and whether each package reaches its floor
	rm -rf $(COVERAGE) && mkdir -p $(COVERAGE)
	$(MAKE) --no-print-directory --jobs=$(words $(PARTS)) --output-sync=target $(addprefix coverage-,$(PARTS))
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet -o $(COVERAGE)/report.json
	@PYTHONPATH=tests $(BIN)/python -m support.coverage_floors $(COVERAGE)/report.json
$(addprefix coverage-,$(PARTS)):
	KAFKA_SIDECAR_PURE=1 HYPOTHESIS_PROFILE=few $(BIN)/coverage run -m pytest --quiet -m $(UNIT)" and not bulk" $($(subst coverage-,PART_,$@)) $(NO_CODE)

# Each process would collect all tests to run these few.
PROGRAMS = $(shell grep --recursive --files-with-matches --include='test_*.py' --exclude-dir=bench 'mark\.program' tests)
.PHONY: programs
programs: install ## the tests that run whole programs, the demo among them, without Kafka
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal -m "program $(SLOW)" $(PROGRAMS)

.PHONY: benches
benches: install ## each bench, shortly: that it runs and what it says
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal -m program tests/bench

WITH_KAFKA := tests/integration tests/codec/records tests/schemas/avro
# Clients mostly wait. Each process has brokers of its own; tests/integration/by_cluster.py says which tests stay together.
SIDE_BY_SIDE := --numprocesses 6 --dist loadfile --no-loadscope-reorder
.PHONY: kafka
kafka: ## brokers and Java clients of all supported versions, by Maven, into .cache/kafka
	bash tests/jvm/fetch.sh

# Else each of the processes compiles all tests, and all wait until one has prepared a broker.
.venv/.collected: .venv/.installed
	$(BIN)/pytest --quiet --collect-only -m integration $(WITH_KAFKA) > /dev/null
	@touch $@

.PHONY: kafka-ready
kafka-ready: .venv/.collected kafka ## the same, and what brokers and Java clients of the tests start from
	@cd tests && ../$(BIN)/python -c "from harness import jvm, tool_host, versions; [(jvm.prepared(one), tool_host.compiled(one)) for one in versions.JAVA_CLIENTS]"

.PHONY: integration-core
integration-core: install kafka-ready ## real clients through the sidecar, newest broker
	$(BIN)/pytest -m "integration and not matrix $(SLOW)" $(SIDE_BY_SIDE) $(WITH_KAFKA)

.PHONY: integration
integration: install kafka spark-install ## the full compatibility matrix; writes docs/compatibility.md
	$(BIN)/pytest -m "integration or matrix" $(WITH_KAFKA)

.PHONY: mutations
mutations: spark-install kafka ## faults on purpose: each must be found, by the runs of features together or by unit tests
	@cd tests && ../$(BIN)/python -m mutants.run
	@cd tests && ../$(BIN)/python -m integration.together.mutations

.PHONY: other-clients
other-clients: install kafka ## producers and consumers in Go and JavaScript: rejections, large messages; needs go and npm
	$(BIN)/pytest -m matrix tests/integration/validation/test_client_behaviour.py tests/integration/large_messages/test_other_clients.py \
	    tests/integration/large_messages/test_codecs.py tests/integration/large_messages/test_requests_to_brokers.py

.PHONY: fuzz
fuzz: install ## hostile bytes into every decoder, FUZZ_SECONDS (60) long; then new examples for every property
	$(BIN)/python tests/fuzz/run.py $${FUZZ_SECONDS:-60}
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest --quiet --numprocesses auto --maxprocesses 4 --dist worksteal -m $(UNIT)" and hypothesis" $(NOT_SPARK)

.PHONY: fuzz-sidecar
fuzz-sidecar: install kafka ## spoilt requests of all APIs to a sidecar with all features, FUZZ_SECONDS (600) long, an honest client beside
	cd tests && ../$(BIN)/python fuzz/sidecar.py $${FUZZ_SECONDS:-600}

.PHONY: hostile
hostile: install kafka ## attacks on a sidecar with honest Java clients beside them; the table of docs/reference/limits.md
	$(BIN)/python tests/hostile/run.py

.PHONY: bench-relay
bench-relay: install ## CPU per request, latency, memory and start-up against direct, haproxy and socat
	$(BIN)/python bench/relay.py

.PHONY: bench-page
bench-page: install ## CPU at 50,000 records a second with ten open pages, against none; what is added to one request
	$(BIN)/python bench/page.py
	$(BIN)/python bench/watched_requests.py

.PHONY: bench-page-tick
bench-page-tick: install ## CPU of one snapshot for ten open pages by step, then with 10,000 topics and connections
	$(BIN)/python bench/page_tick.py
	$(BIN)/python bench/page_tick.py --ticks 60 --topics 10000 --connections 9800

.PHONY: bench-tap
bench-tap: install ## CPU of the sidecar at 50,000 records a second with an open tap of each kind, against none
	$(BIN)/python bench/tap.py

.PHONY: bench-validate
bench-validate: install ## CPU per record with a JSON policy, without, and through haproxy
	$(BIN)/python bench/validate.py

.PHONY: bench-dead-letters
bench-dead-letters: install ## CPU per record with dead letters for its topic, for another one, and with none
	$(BIN)/python bench/dead_letters.py

.PHONY: bench-rules
bench-rules: install ## CPU per request with rules that allow it, compared with no rules
	$(BIN)/python bench/rules.py

.PHONY: bench-habits
bench-habits: install ## CPU per request of producers' habits, compared with the policy limits and with none
	$(BIN)/python bench/habits.py

.PHONY: bench-rate-costs
bench-rate-costs: install ## CPU per request with rate limits, of its topic, of another one, and with none
	$(BIN)/python bench/rate_costs.py

.PHONY: bench-rate-limits
bench-rate-limits: install kafka ## how close to 1 MB/s clients are that are limited to it, by client
	$(BIN)/python bench/rate_limits.py

.PHONY: bench-intercept
bench-intercept: install ## CPU per request with interceptors for its topic, for another one, and with none
	$(BIN)/python bench/intercept.py

.PHONY: bench-audit
bench-audit: install kafka ## CPU of what is audited compared with what is not: per request, and with Kafka's own clients
	$(BIN)/python bench/audit_counts.py
	$(BIN)/python bench/audit_clients.py

.PHONY: bench-large
bench-large: install kafka ## 10 MB through a limit of 1 MB, compared with a topic that allows them: librdkafka and a real broker
	$(BIN)/python bench/large_messages.py

.PHONY: bench-records
bench-records: install ## CPU per record of reading or changing a batch, compared with decompression and checksum
	$(BIN)/python bench/records.py

.PHONY: bench-json
bench-json: install ## the cost of checking that a value is JSON, compared with other parsers
	$(BIN)/python bench/json_syntax.py

.PHONY: bench-schemas
bench-schemas: install ## CPU per record of schemas, by depth and language, compared with decompression and other readers
	$(BIN)/python bench/schemas.py

.PHONY: bench-consume
bench-consume: install ## CPU per record of policies for consumers, on topics that ask for them and on others
	$(BIN)/python bench/consume.py

.PHONY: bench-signatures
bench-signatures: install ## CPU per record of the policy jws, by algorithm
	$(BIN)/python bench/signatures.py

.PHONY: bench-connections
bench-connections: install ## memory and CPU of 10,000 idle connections, a new one's first response beside 1,000 busy ones
	$(BIN)/python bench/connections.py

.PHONY: bench-sizing
bench-sizing: install ## CPU of each step and memory, into docs/how-to/sizing.md; less than 8 minutes on a quiet machine
	$(BIN)/python bench/sizing.py

.PHONY: bench-workers
bench-workers: install ## records a second and CPU per record with two workers on two cores, compared with one
	$(BIN)/python bench/workers.py

.PHONY: bench-tls
bench-tls: install ## CPU per request with TLS from clients, to brokers and both, compared with haproxy
	$(BIN)/python bench/tls.py

.PHONY: bench-replay
bench-replay: spark-install kafka ## CPU per record and memory of replay-policy, by how it could read the records
	$(BIN)/python bench/replay.py

.PHONY: bench-suggest
bench-suggest: spark-install kafka ## CPU per record and memory of suggest-policy, for 5 million records of 1 KB
	$(BIN)/python bench/suggest.py

# Go programs and 22 MB of schemas, which the tests of CI do without.
TOOLS := $(abspath .cache/tools)
OPERATOR := github.com/prometheus-operator/prometheus-operator@v0.85.0
.PHONY: helm
helm: $(TOOLS)/bin/helm ## helm alone, into .cache/tools/bin; needs go
$(TOOLS)/bin/helm:
	GOBIN=$(TOOLS)/bin CGO_ENABLED=0 go install helm.sh/helm/v3/cmd/helm@v3.19.2

.PHONY: helm-tools
helm-tools: install $(TOOLS)/.helm ## helm, kubeconform, cyclonus and Kubernetes' schemas into .cache/tools; needs go
$(TOOLS)/.helm: tests/chart/schemas.py | $(TOOLS)/bin/helm
	GOBIN=$(TOOLS)/bin CGO_ENABLED=0 go install github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
	GOBIN=$(TOOLS)/bin CGO_ENABLED=0 go install github.com/mattfenwick/cyclonus/cmd/cyclonus@v0.5.6
	$(BIN)/python -m pip download --quiet --no-deps --dest $(TOOLS) kubernetes-validate==1.37.0
	go mod download $(OPERATOR)
	cd tests && ../$(BIN)/python -m chart.schemas $(TOOLS)/kubernetes_validate-1.37.0-*.whl \
	    $$(go env GOMODCACHE)/$(OPERATOR)/example/prometheus-operator-crd $(TOOLS)/schemas
	@touch $@

.PHONY: chart-docs
chart-docs: install ## the table of values and values.schema.json of the Helm chart, from its values.yaml
	@cd tests && ../$(BIN)/python -m support.chart_docs

.PHONY: chart-golden
chart-golden: helm-tools ## what the Helm chart renders of each file in its ci/, into tests/chart/golden
	@cd tests && ../$(BIN)/python -m harness.helm

.PHONY: chart
chart: helm-tools kafka ## the Helm chart rendered, validated, and every container of its ci/ started; needs go
	$(BIN)/pytest --quiet tests/chart tests/integration/test_chart.py

.PHONY: dashboards
dashboards: install ## the Grafana dashboard and the alert rules of the Helm chart, and the tests of the rules
	@cd tests && ../$(BIN)/python -m support.monitoring

.PHONY: prometheus
prometheus: ## prometheus and promtool, where they are not installed, from Debian's package into .cache/tools
	@command -v prometheus promtool > /dev/null || test -x $(TOOLS)/prometheus/usr/bin/promtool || { \
	    mkdir -p $(TOOLS) && cd $(TOOLS) && apt-get download prometheus && dpkg-deb -x prometheus_*.deb prometheus && rm prometheus_*.deb; }

.PHONY: dashboards-check
dashboards-check: install kafka prometheus ## the alerts by promtool; every panel by a Prometheus that scrapes busy sidecars
	$(BIN)/uv pip install --quiet --target build/grafana 'grafana-foundation-sdk==1769699998!10.1.0'
	PYTHONPATH=build/grafana $(BIN)/pytest --quiet -m monitoring tests/monitoring
	cd tests && ../$(BIN)/python -m monitoring.live

.PHONY: dashboards-picture
dashboards-picture: dashboards-check ## docs/images/dashboard.png, from what dashboards-check has measured
	$(BIN)/uv pip install --quiet --target build/matplotlib matplotlib==3.11.2
	cd tests && PYTHONPATH=../build/matplotlib ../$(BIN)/python -m monitoring.picture

.venv/.docs: .venv/.installed requirements-docs.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-docs.lock
	@touch $@

# Compiled modules have no signatures. A warning, such as a link that leads nowhere, ends the build.
.PHONY: docs docs-check
docs: .venv/.docs ## the documentation as a site with search, into build/site/html; KAFKA_SIDECAR_URL gives links to sources
	KAFKA_SIDECAR_PURE=1 $(BIN)/sphinx-build --quiet --jobs auto --fail-on-warning --keep-going \
	    -c docs/site -d build/site/doctrees -b html . build/site/html
	@echo "build/site/html/index.html"

docs-check: docs ## the site: links and anchors, no foreign host, the search, each page of the navigation
	$(BIN)/pytest --quiet -m site tests/site

.PHONY: demo-recording
demo-recording: .venv/.docs ## docs/images/demo.svg, the terminal of `make demo`, from a run of it
	$(BIN)/python docs/site/recording.py docs/images/demo.svg $(BIN)/python examples/demo.py

IMAGE ?= kafka-sidecar:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/kafka_sidecar/__init__.py)
SOURCE ?=
# A docker without its daemon is none.
BUILDER = $(firstword $(foreach builder,docker podman buildah,$(shell $(builder) info >/dev/null 2>&1 && echo $(builder))))
.PHONY: image
image: ## the container image IMAGE, by docker, podman or buildah
	@test -n "$(BUILDER)" || { echo "make image needs docker, podman or buildah; make image-test does without"; exit 2; }
	$(BUILDER) build --tag $(IMAGE) --build-arg SOURCE=$(SOURCE) --build-arg VERSION=$(lastword $(subst :, ,$(IMAGE))) \
	    --build-arg REVISION=$$(git rev-parse HEAD) --build-arg CREATED=$$(date --utc +%FT%TZ) $(IMAGE_FLAGS) .

.PHONY: image-test
image-test: install ## the steps of the Dockerfile in a clean root, and its sidecar run as in a pod; needs root and debootstrap
	@test "$$(id -u)" = 0 && command -v debootstrap unshare >/dev/null || { echo "make image-test needs root, debootstrap and unshare"; exit 2; }
	$(BIN)/pytest -m image tests/artefacts/test_image.py

.PHONY: wheel
wheel: ## a wheel for this platform, into dist
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

.PHONY: versions release-check
versions: install ## the version of src/kafka_sidecar/__init__.py, into chart, compose.yaml, pages and tests
	cd tests && ../$(BIN)/python -m artefacts.release --write

release-check: install ## versions and changelog agree, the tree is clean; wheel and sdist built into build/release, and tried
	cd tests && ../$(BIN)/python -m artefacts.release

.PHONY: bench-reconcile
bench-reconcile: spark-install ## CPU of reconcile on a Spark cluster of two workers, by events, cores and form
	$(BIN)/python bench/reconcile.py

.PHONY: lock
lock: install ## resolve the dependencies again, into requirements*.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
	    --group dev -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
	    --extra pipeline --constraint requirements.lock -o requirements-pipeline.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
	    --extra cel --extra jwt --extra object-store --extra otel --extra pkcs12 --extra schemas --constraint requirements.lock -o requirements-run.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
	    --group image --constraint requirements.lock -o requirements-image.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
	    --group docs --constraint requirements.lock -o requirements-docs.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
	    --group browser --constraint requirements.lock -o requirements-browser.lock

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf .venv .cache build dist *.egg-info src/*.egg-info
	find audit codec proxy schemas -name '*.so' -delete
