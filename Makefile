# The only commands a newcomer needs. make help lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo demo-show demo-down build image crds charts fmt lint deny clean \
        test test-pure test-charts test-database test-apiserver test-cluster

CLUSTER := tests/cluster/cluster
DEMO := examples/payments/demo/demo
IMAGE ?= sqlstreams:dev
HANDLER_IMAGE ?= payments-handler:dev

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

demo: ## the payments example on a real cluster, end to end
	@$(DEMO) up

demo-show: ## its story again
	@$(DEMO) show

demo-down: ## remove every trace of it
	@$(DEMO) down

build: ## the sqlstreams binary, target/release/sqlstreams
	cargo build --release --locked --bin sqlstreams

image: ## the images IMAGE (sqlstreams:dev) and HANDLER_IMAGE (payments-handler:dev), with Docker or buildah
	examples/payments/demo/image sqlstreams $(IMAGE)
	examples/payments/demo/image payments-handler $(HANDLER_IMAGE)

crds: ## write crds/ and the templates of charts/sqlstreams-crds from the Rust types
	cargo run --quiet -- crd --output-folder crds
	charts/sync-crds

charts: ## pack the charts into target/charts
	PATH="$$($(CLUSTER) bin):$$PATH" helm package charts/sqlstreams charts/sqlstreams-crds --destination target/charts

fmt: ## format the code
	cargo fmt

lint: ## what a review would say first: format, clippy, shell scripts, CRDs
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	charts/sync-crds --check
	@if command -v shellcheck >/dev/null; then tests/shellcheck; else echo "shellcheck is not installed: shell scripts were not checked"; fi

deny: ## licences and advisories of all dependencies, where cargo-deny is installed
	@if command -v cargo-deny >/dev/null; then cargo deny check; else echo "cargo-deny is not installed: cargo install cargo-deny"; fi

test: ## every group of tests, with a table of how each went at the end
	@tests/run

test-pure: ## without anything but Rust
	cargo test --locked --lib --bins --examples --test pure
	cargo test --locked --doc

test-charts: ## what the charts render to (helm)
	cargo test --locked --test charts

test-database: ## on a throw-away Postgres (installed binaries)
	cargo build --locked --example native-worker
	cargo test --locked --test database

test-apiserver: ## against a real API server, built where it is missing
	@tests/with-apiserver cargo test --locked --test apiserver

test-cluster: ## the demo itself, on a cluster of its own
	cargo test --locked --test cluster -- --nocapture

clean: ## what was built here; make demo-down says where the caches lie
	cargo clean
