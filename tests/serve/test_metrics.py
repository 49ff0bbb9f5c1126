"""What Prometheus reads of a node, with its own parser."""

import json
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from node import ROOT
from waiting import wait

JOB = """
name: sums
checkpoint: {every: 100ms}
sources: {orders: {stream: orders, format: json}}
stages: {totals: {from: orders, key: [name], window: {count: {size: 2, every: 2}}, aggregate: {total: sum(n)}}}
sinks: {out: {from: totals, file: {path: out.ndjson, format: json}}}
"""


def figures(node):
    """All samples by name and labels."""
    answer = node.get("/metrics")
    assert answer.status == 200, answer.body
    found = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            place = (sample.name.removeprefix("tidemill_"), *sorted(sample.labels.items()))
            assert place not in found, place
            found[place] = sample.value
    return found


def of(found, name, **labels):
    return found.get((name, *sorted(labels.items())))


def submit(node, text):
    answer = node.post("/jobs", json.dumps({"job": text}))
    assert answer.status == 201, answer.body


def test_figures_follow_a_job_its_stream_and_its_readers(own):
    node = own().start()
    node.create("orders", "?streamlets=2")
    node.append("orders", [{"name": "a", "n": n} for n in range(4)] + ["no object"], "?streamlet=0")
    submit(node, JOB)
    rows = lambda: of(figures(node), "job_sink_rows_total", job="sums", sink="out")
    wait(lambda: rows() == 2, 20, "rows")
    wait(lambda: of(figures(node), "job_checkpoint_age_seconds", job="sums") is not None, 20, "a checkpoint")
    found = figures(node)
    assert of(found, "job_status", job="sums", status="running") == 1
    assert of(found, "job_status", job="sums", status="failed") == 0
    assert of(found, "job_source_records_total", job="sums", source="orders") == 4
    assert of(found, "job_dead_letters_total", job="sums") == 1
    assert of(found, "job_stage_state_bytes", job="sums", stage="totals") is not None
    assert of(found, "job_checkpoints_total", job="sums") >= 1
    assert of(found, "job_checkpoint_failures_total", job="sums") == 0
    assert 0 <= of(found, "job_checkpoint_age_seconds", job="sums") < 3600
    assert of(found, "log_stream_end_offset", stream="orders", streamlet="0") == 5
    assert of(found, "log_stream_bytes", stream="orders") > 0

    before = of(found, "kafka_requests_total")
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}", "group.id": 'the "g"', "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    read = []
    wait(lambda: read.extend(consumer.consume(10, 0.2)) or len(read) >= 5, 20, "records")
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    consumer.close()
    found = figures(node)
    assert of(found, "kafka_group_lag_offsets", group='the "g"', stream="orders") == 3
    assert of(found, "kafka_requests_total") > before
    assert of(found, "kafka_fetched_records_total") >= 5
    assert of(found, "kafka_groups") == 1

    node.append("orders", [{"name": "a", "n": n} for n in range(2)], "?streamlet=1")
    wait(lambda: rows() == 3, 20, "the rest")
    assert node.ask("DELETE", "/jobs/sums").status == 202
    wait(lambda: of(figures(node), "job_status", job="sums", status="cancelled") == 1, 20, "cancelled")
    found = figures(node)
    assert of(found, "job_status", job="sums", status="running") == 0
    assert of(found, "job_sink_rows_total", job="sums", sink="out") == 3, "how far it was"
    node.stop()
    node.start()
    found = figures(node)
    assert of(found, "job_status", job="sums", status="cancelled") == 1
    assert of(found, "job_sink_rows_total", job="sums", sink="out") is None


def test_every_figure_is_in_the_documents_and_no_other(own):
    node = own().start()
    node.create("orders")
    node.append("orders", [{"name": "a", "n": 1}])
    submit(node, JOB)
    wait(lambda: of(figures(node), "job_checkpoint_age_seconds", job="sums") is not None, 20, "a checkpoint")
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}", "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    table = Path(ROOT, "docs/http.md").read_text().split("### Figures")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in row.split("`")[1::2]}
    parts = ("_bucket", "_sum", "_count", "_created")
    there = {name[0] for name in figures(node)}
    there = {next((name.removesuffix(it) for it in parts if name.endswith(it)), name) for name in there}
    assert there == documented
