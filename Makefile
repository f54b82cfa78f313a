# The commands of this repository. `make help` lists them.

# The cache of downloads and built images, as in scripts/setup.sh.
CACHE := $(or $(BELLJAR_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/belljar)
BUILD := $(or $(CARGO_TARGET_DIR),target)
export PATH := $(PATH):$(CACHE)/dev/bin:$(CACHE)/tools/bin
# The engines of `make bench` and `make soak`: podman-rootful, podman-rootless, docker, process; empty: all that are available.
ENGINE ?=
# Files that `make search-bench` and `make stubs-check` measure, in the format of tests/search; empty: those in tests/search.
TOOLS ?=
QUERIES ?=
# How often `make chaos` kills a bridge, and how long `make soak` runs.
ROUNDS ?= 20
MINUTES ?= 5
# The seed of both.
SEED ?= 1
# How long `make fuzz` runs each target, and which target; empty: all.
SECONDS ?= 60
TARGET ?=

.DEFAULT_GOAL := help
.PHONY: release-check help demo demo-data test test-all probes ux-transcripts interop clients conformance chaos soak fuzz bench bench-shared search-bench tokens tasks each-write stubs-check docs image engines-up engines-down

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | column -t -s '|'

# The build and the image do not need each other.
define build_beside_setup
	cargo build --profile demo --locked & build=$$!; scripts/setup.sh demo; ready=$$?; wait $$build && \
		[ $$ready = 0 ] && scripts/setup.sh environment $(BUILD)/demo/belljar
endef

demo: ## set up what is missing, build a binary without optimisations, and run the main job on real servers
	$(build_beside_setup)
	python3 scripts/demo.py $(BUILD)/demo/belljar

demo-data: ## the same with 200 MB of CSV in a mounted folder, continued by a session of the next day
	$(build_beside_setup)
	python3 scripts/demo_data.py $(BUILD)/demo/belljar

test: ## set up what is missing; run every test on one engine, and a smoke set on the others
	scripts/test.sh

test-all: ## the same, with tests that depend on the engine on every engine, as on a build machine
	scripts/test.sh all

chaos: ## kill the bridge, or something of one that clients share, at ROUNDS=n random points (SEED=s) and count what is left
	scripts/setup.sh engines-up
	cargo build --locked --bin belljar --example fixture_server
	cargo test --locked --test chaos -- --rounds $(ROUNDS) --seed $(SEED)

# The release binary: its memory is that of users, and it makes more runs in a minute.
soak: ## random runs, calls and faults for MINUTES=n (SEED=s) on every engine or ENGINE=..., and a check of the history
	scripts/setup.sh engines-up
	cargo build --release --locked --bin belljar --example fixture_server
	BELLJAR_SOAK_ENGINES='$(ENGINE)' cargo test --release --locked --test soak -- --seconds $$(($(MINUTES) * 60)) --seed $(SEED)

fuzz: ## run every fuzz target for SECONDS=n, or TARGET=name only; needs a nightly toolchain
	scripts/fuzz.sh $(SECONDS) $(TARGET)

probes: ## try on every engine what sandboxed code must not do, show that it succeeds without the defence, print the table
	scripts/setup.sh engines-up
	cargo build --locked --bin belljar --example fixture_server
	cargo test --locked --test probes -- --ignored --nocapture
	cargo test --locked --test live -- --ignored

ux-transcripts: ## run a hundred situations and compare each whole reply with the reviewed one; BLESS=1 rewrites them
	scripts/setup.sh engines-up
	cargo build --locked --bin belljar --example fixture_server
	cargo test --locked --test ux -- --nocapture

interop: ## call real servers of others over every transport and confined, and write the tables in docs/reference/compatibility.md; 0.9 GB
	scripts/setup.sh interop
	cargo build --locked --bin belljar --example fixture_server
	BLESS=1 cargo test --locked --test interop real_servers -- --include-ignored --nocapture

clients: ## run real agent programs and SDKs with scripted models, and write their tables in docs/reference/compatibility.md; 3.5 GB
	scripts/setup.sh clients
	cargo build --locked --bin belljar
	BLESS=1 cargo test --locked --test interop real_clients -- --ignored --nocapture

conformance: ## run the official conformance suite of MCP against the binary, and write the table of docs/reference/conformance.md
	scripts/setup.sh test
	cargo build --locked --bin belljar
	BLESS=1 cargo test --locked --test interop conformance -- --nocapture --test-threads=1

release-check: ## build every package, check it, install it in empty roots of Debian, run the image on Podman and Docker, and measure the time to the first answer
	scripts/setup.sh release
	scripts/setup.sh engines-up
	rm -rf $(BUILD)/packages
	PATH=$(CACHE)/release/bin:$$PATH packaging/package.py $(BUILD)/packages x86_64-unknown-linux-gnu --profile demo
	PATH=$(CACHE)/release/bin:$$PATH packaging/package.py $(BUILD)/packages common
	packaging/check.py $(BUILD)/packages

bench: ## measure every engine that is there, or ENGINE=podman-rootful,docker; JSON in target/bench.json
	scripts/setup.sh engines-up
	cargo build --release --locked --bin belljar --example fixture_server
	BELLJAR_BENCH_ENGINES='$(ENGINE)' cargo bench --locked --bench bridge

bench-shared: ## measure one bridge for 20 clients and 13 servers, and for 50 sessions, beside a bridge for each
	scripts/setup.sh engines-up
	cargo build --release --locked --bin belljar --example fixture_server
	cargo bench --locked --bench shared

search-bench: ## measure the search on the committed tools and queries, or on TOOLS=file QUERIES=file
	TOOLS='$(TOOLS)' QUERIES='$(QUERIES)' cargo bench --locked --bench search

tokens: ## count the tokens that a model reads of all servers' tools, and of belljar; TOOLS=file adds others
	TOOLS='$(TOOLS)' cargo bench --locked --bench tokens

tasks: ## run sixty programs, written as a model writes them, for sixty tasks over ten servers; print what each costs
	scripts/setup.sh test
	cargo build --locked --bin belljar --examples
	cargo test --locked --test live sixty_tasks -- --nocapture --test-threads=1

each-write: ## kill the bridge, its container and its interpreter at each change of files that it makes; half an hour
	scripts/setup.sh engines-up
	cargo build --locked --bin belljar --examples
	BELLJAR_EVERY_WRITE=1 cargo test --locked --test it --test live each_write -- --nocapture --test-threads=1

stubs-check: ## turn the schemas of the committed tools, or of TOOLS=file, into Python, and have Python check it
	TOOLS='$(TOOLS)' cargo bench --locked --bench stubs

image: ## build the sandbox image and load it into this user's engine
	sandbox-image/build.sh

docs: ## build the book of docs/ into target/book
	scripts/setup.sh docs
	$(CACHE)/book/bin/mdbook build docs --dest-dir $(abspath $(BUILD))/book

engines-up: ## start the test engines on private sockets
	scripts/setup.sh engines-up

engines-down: ## stop them
	scripts/setup.sh engines-down
