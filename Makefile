# make run           build, fetch the demo's data, run the demo
# make test          everything CI runs
# make serve         the node as a process: starting, stopping, HTTP
# make backends      checkpoints on Redis and S3, with the servers themselves
# make coord         the coordinator's table in a real etcd
# make cluster-tests clusters of real nodes: killed, paused, refused, without their coordinator
# make cluster       three nodes on this machine, until Ctrl-C
# make hbase         the same on HBase: downloads 300 MB once
# make postgres      jobs that write tables of a real PostgreSQL server
# make kills         random jobs and nodes that are killed again and again: the same bytes
# make clients       unmodified Kafka clients against our broker
# make connectors    jobs that read and write topics of a real Apache Kafka
# make connect       Kafka Connect and MirrorMaker 2 against our broker, with kills
# make cluster-seeds five simulated nodes under faults: SEEDS=10000
# make slow-disk     the tests in Rust on a disk that is slow to sync: SYNC_MS=5
# make plants        puts known bugs into a copy of the code: the tests must fail
# make bench         ours and its peers in turn; writes a table and a plot
# make bench-broker  our broker and Apache Kafka in turn, the same way
# make bench-state   much state, saves and many windows beside Flink; DATA=FOLDER, on the disk to measure

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run data test binary first-row second-row third-row checks bench bench-broker bench-state fmt lint unit docs oracle serve backends cluster cluster-tests coord hbase postgres kills clients connectors connect cluster-seeds slow-disk plants models

TARGET := $(or $(CARGO_TARGET_DIR),target)
# step NAME,COMMAND: runs it and says how long it took. Nothing in it is part of this make's jobs.
step = @printf '\n== %s\n' '$(1)'; unset MAKEFLAGS; SECONDS=0; $(2); printf '== %s: %d s\n' '$(1)' "$$SECONDS"

help:
	@sed -n 's/^# make/make/p' Makefile

# The demo reads data/, wherever other data is kept.
run:
	cargo build --release --locked -p tidemill
	TIDEMILL_DATASETS= ./examples/fetch-data.sh flights nycflights
	$(TARGET)/release/tidemill run examples/demo.yaml

data:
	./examples/fetch-data.sh flights nycflights

# What builds in the one target folder goes one after the other, whatever -j says. Then the suites in
# three rows, as each waits for much, and beside them what only checks the code, in a folder of its own
# and with what the suites leave of the cores; each says what it has to say when it is done. The kills come
# last and alone, as they take all of the cores: the other suites are no tests of a machine that has none left.
test:
	@$(MAKE) --no-print-directory fmt
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory binary
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=target first-row second-row third-row checks
	@$(MAKE) --no-print-directory kills

binary:
	$(call step,binary,cargo build --locked -p tidemill)

first-row:
	@$(MAKE) --no-print-directory oracle
	@$(MAKE) --no-print-directory backends

second-row:
	@$(MAKE) --no-print-directory clients
	@$(MAKE) --no-print-directory postgres
	@$(MAKE) --no-print-directory coord

third-row:
	@$(MAKE) --no-print-directory connectors
	@$(MAKE) --no-print-directory cluster-tests
	@$(MAKE) --no-print-directory serve

checks:
	@nice -n 19 $(MAKE) --no-print-directory lint
	@nice -n 19 $(MAKE) --no-print-directory docs

fmt:
	$(call step,format,cargo fmt --all --check)

# What only fuzz targets see is looked at, too. Both have the same flags, so that what they need is built once.
lint:
	$(call step,lints,RUSTFLAGS="--cfg fuzzing" cargo clippy --target-dir $(TARGET)/checks --workspace --all-targets --features tidemill-fuzz/all --locked -- -D warnings)

unit:
	$(call step,tests,cargo test --workspace --locked --no-fail-fast)

docs:
	$(call step,documentation,RUSTFLAGS="--cfg fuzzing" RUSTDOCFLAGS="-D warnings" cargo doc --target-dir $(TARGET)/checks --workspace --no-deps --locked)

# The same results as an independent engine, on real data.
oracle:
	$(call step,oracle,tests/oracle/run.sh)

# The node as a process, and real clients of InfluxDB.
serve:
	$(call step,serve,tests/serve/run.sh)

# Checkpoints on servers that are killed, damaged and not there.
backends:
	$(call step,backends,tests/backends/run.sh redis s3)

# The coordinator's contract against a real etcd.
coord:
	$(call step,coord,tests/coord/run.sh)

# Nodes as processes, with voters and with a real etcd.
cluster-tests:
	$(call step,cluster,tests/cluster/run.sh)

# Three nodes on this machine with one command.
cluster:
	cargo build --release --locked -p tidemill
	TIDEMILL_BIN=$(TARGET)/release/tidemill examples/cluster/run.sh

hbase:
	$(call step,hbase,tests/backends/run.sh hbase)

# Tables of a real PostgreSQL server, which is crashed and cut off.
postgres:
	$(call step,postgres,tests/postgres/run.sh)

# Random jobs, and a node with jobs, killed at any moment: the output of undisturbed runs.
kills:
	$(call step,kills,tests/kills/run.sh)

# Real Kafka clients against a debug build.
clients:
	$(call step,clients,tests/clients/run.sh --ignore=test_kafka_connectors.py --ignore=test_kafka_cluster.py --ignore=test_connect.py --ignore=test_mirror.py)

# Topics of Apache Kafka, and of our own broker, as sources and sinks of jobs.
connectors:
	$(call step,connectors,tests/clients/run.sh test_kafka_connectors.py test_kafka_cluster.py)

# Workers of Kafka Connect, and MirrorMaker 2 between our broker and an Apache Kafka.
connect:
	$(call step,connect,tests/clients/run.sh test_connect.py test_mirror.py)

# A test that takes for granted that the disk is faster than something else is found so. Simulations have
# no disk that could be slow, and many threads, which strace follows one by one.
SYNC_MS ?= 5
SYNCS := fsync,fdatasync,syncfs,sync_file_range
SLOW := "strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=$(SYNCS)", "-e", "inject=$(SYNCS):delay_enter=$(SYNC_MS)000"
slow-disk:
	$(call step,slow disk,cargo --config 'target."cfg(unix)".runner = [$(SLOW)]' test --workspace --exclude tidemill-sim --exclude tidemill-fuzz --locked --no-fail-fast --lib --bins --tests)

# Membership of five nodes, by seed: kills, pauses, cuts, lost answers, compaction. `cargo test` runs 100.
SEEDS ?= 10000
cluster-seeds:
	CLUSTER_SEEDS=$(SEEDS) cargo test --locked -p tidemill-coord --lib five_nodes_agree -- --nocapture

# Planted bugs: each must be caught by the tests that docs/robustness.md names.
plants:
	cargo run --quiet --locked -p xtask -- plants

# Every interleaving of a protocol within bounds; `make unit` checks smaller ones.
models:
	$(call step,models,TIDEMILL_MODELS=large cargo test --locked -p tidemill-models -- --nocapture --test-threads 1)

bench:
	bench/run.py

bench-broker:
	bench/broker/run.py

# Each in a folder of its own, which it makes and removes.
bench-state:
	@[ -n "$(DATA)" ] || { echo 'make bench-state DATA=FOLDER: say which folder, on the disk that is to be measured' >&2; exit 1; }
	bench/state.py --data "$(DATA)/state"
	bench/beside_flink.py --data "$(DATA)/beside-flink"
