"""Jobs read and write topics of an Apache Kafka: every record once, whatever is killed or restarted meanwhile."""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokers import ROOT, Kafka, Tidemill, wait

pytestmark = [pytest.mark.timeout(300)]

BINARY = os.environ.get("TIDEMILL_BIN", str(ROOT / "target/debug/tidemill"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    found = Kafka(tmp_path_factory.mktemp("kafka")).start()
    yield found
    found.check()
    found.kill()


def make_topic(kafka, name, partitions=1):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(30)
    return name


def produce(kafka, topic, numbers, partitions, **settings):
    """Sends {"n": number}, each to its partition, and waits until all are there."""
    producer = Producer({"bootstrap.servers": kafka.address, "enable.idempotence": True, "linger.ms": 2, **settings})
    for n in numbers:
        producer.produce(topic, json.dumps({"n": n}), key=str(n % 7), partition=n % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


def ends(kafka, topic, partitions):
    """The last stable offsets."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "ends", "isolation.level": "read_committed"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, it), 30)[1] for it in range(partitions)]
    finally:
        consumer.close()


def committed(kafka, topic, partitions, seconds=60):
    """All committed records of a topic, by partition: offset, key, value."""
    goal = ends(kafka, topic, partitions)
    settings = {"group.id": "read", "isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.partition.eof": False}
    consumer = Consumer({"bootstrap.servers": kafka.address, **settings})
    found = [[] for _ in range(partitions)]
    try:
        consumer.assign([TopicPartition(topic, it, 0) for it in range(partitions)])

        def there():
            message = consumer.poll(0.05)
            while message is not None:
                assert message.error() is None, message.error()
                found[message.partition()].append((message.offset(), message.key(), json.loads(message.value())))
                message = consumer.poll(0)
            at = consumer.position([TopicPartition(topic, it) for it in range(partitions)])
            return all(p.offset >= end for p, end in zip(at, goal) if end > 0)

        wait(there, seconds, "all committed records are read")
    finally:
        consumer.close()
    return found


class Job:
    """A job of a file of its own, run by `tidemill run`."""

    def __init__(self, folder, spec):
        self.folder, self.process = Path(folder), None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file, self.data, self.log = self.folder / "job.yaml", self.folder / "state", self.folder / "run.log"
        # JSON is YAML.
        self.file.write_text(json.dumps(spec))

    def start(self, *more):
        line = [BINARY, "run", str(self.file), "--data", str(self.data), "--json", *more]
        with open(self.log, "ab") as log:
            environment = {**os.environ, "TIDEMILL_LOG": "info"}
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)
        return self

    def text(self):
        return self.log.read_text(errors="replace")

    def check(self):
        assert self.process.poll() is None, f"the job ended with {self.process.returncode}: {self.text()[-3000:]}"

    def finish(self, seconds=60):
        code = self.process.wait(seconds)
        assert code == 0, self.text()[-3000:]

    def stop(self, seconds=30):
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(seconds)

    def kill(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def job(tmp_path):
    made = []

    def make(spec):
        made.append(Job(tmp_path / f"job{len(made)}", spec))
        return made[-1]

    yield make
    for it in made:
        it.kill()


def source(kafka, topic, **more):
    return {"kafka": {"brokers": kafka.address, "topic": topic, "format": "json", **more}}


def to_file(kafka, topic, path, **more):
    return {"name": "copy", "sources": {"x": source(kafka, topic, **more)}, "sinks": {"y": {"from": "x", "file": {"path": str(path), "format": "json"}}}}


def rows(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if Path(path).exists() else []


def test_a_job_reads_all_records_of_all_partitions_once(kafka, job, name, tmp_path):
    topic = make_topic(kafka, name("in"), 4)
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
        first = ["none", "gzip", "snappy", "lz4", "zstd"].index(codec) * 1000
        produce(kafka, topic, range(first, first + 1000), 4, **{"compression.type": codec})
    meta = {"key": "key", "timestamp": "at", "streamlet": "part", "offset": "offset"}
    out = tmp_path / "out.ndjson"
    job(to_file(kafka, topic, out, until="latest", meta=meta)).start().finish()
    found = rows(out)
    assert sorted(it["n"] for it in found) == list(range(5000))
    for it in found:
        assert it["part"] == it["n"] % 4 and it["key"] == str(it["n"] % 7)
    stored = {(it["part"], it["offset"]) for it in found}
    assert len(stored) == 5000
    expected = {(p, offset): value["n"] for p, records in enumerate(committed(kafka, topic, 4)) for offset, _, value in records}
    assert {(it["part"], it["offset"]): it["n"] for it in found} == expected


def test_only_committed_records_are_read_and_a_hidden_end_ends_the_job(kafka, job, name, tmp_path):
    topic = make_topic(kafka, name("in"), 2)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": name("tx"), "linger.ms": 2})
    producer.init_transactions(30)
    expected = []
    for turn in range(20):
        producer.begin_transaction()
        for i in range(50):
            producer.produce(topic, json.dumps({"n": turn * 50 + i}), partition=i % 2)
        if turn % 3 == 1 or turn == 19:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            expected += range(turn * 50, turn * 50 + 50)
    out = tmp_path / "out.ndjson"
    job(to_file(kafka, topic, out, until="latest")).start().finish()
    assert sorted(it["n"] for it in rows(out)) == expected
    # What an open transaction has written is behind the end.
    producer.begin_transaction()
    for i in range(50):
        producer.produce(topic, json.dumps({"n": -1}), partition=i % 2)
    producer.flush(30)
    job(to_file(kafka, topic, out, until="latest")).start().finish()
    assert sorted(it["n"] for it in rows(out)) == expected
    producer.abort_transaction(30)


def test_reading_begins_where_it_is_told(kafka, job, name, tmp_path):
    topic = make_topic(kafka, name("in"))
    producer = Producer({"bootstrap.servers": kafka.address})
    for n in range(100):
        producer.produce(topic, json.dumps({"n": n}), timestamp=1_700_000_000_000 + n * 1000)
    producer.flush(30)
    out = tmp_path / "out.ndjson"
    job(to_file(kafka, topic, out, until="latest", start=1_700_000_000_000 + 59_500)).start().finish()
    assert [it["n"] for it in rows(out)] == list(range(60, 100))
    job(to_file(kafka, topic, out, until="latest", start="latest")).start().finish()
    assert rows(out) == []
    later = job(to_file(kafka, topic, out, start="latest")).start()
    wait(lambda: '"progress"' in later.text(), 30, "the job runs")
    produce(kafka, topic, range(100, 110), 1)
    wait(lambda: len(rows(out)) == 10, 30, "new records are read")
    assert [it["n"] for it in rows(out)] == list(range(100, 110))
    later.check()


def test_what_is_not_there_is_refused_with_what_to_do(kafka, job, name, tmp_path):
    out = tmp_path / "out.ndjson"
    missing = job(to_file(kafka, name("none"), out)).start()
    assert missing.process.wait(30) != 0
    assert "has no topic" in missing.text() and "create it" in missing.text()
    empty = job(to_file(kafka, make_topic(kafka, name("in")), out)).start()
    assert empty.process.wait(30) != 0
    assert "name them and their types" in empty.text()
    away = to_file(kafka, "t", out)
    away["sources"]["x"]["kafka"]["brokers"] = "127.0.0.1:1"
    away = job(away).start()
    assert away.process.wait(30) != 0
    assert "127.0.0.1:1" in away.text() and "`brokers`" in away.text()


def test_a_broker_that_is_restarted_is_waited_for(own_kafka, job, name, tmp_path):
    kafka = own_kafka()
    topic, out = make_topic(kafka, name("in"), 2), tmp_path / "out.ndjson"
    produce(kafka, topic, range(1000), 2)
    running = job(to_file(kafka, topic, out)).start()
    wait(lambda: len(rows(out)) >= 1000, 60, "the first records are read")
    kafka.kill()
    wait(lambda: "cannot fetch" in running.text(), 30, "the job says that it waits")
    kafka.start()
    produce(kafka, topic, range(1000, 2000), 2)
    wait(lambda: len(rows(out)) >= 2000, 60, "the job goes on")
    running.check()
    assert sorted(it["n"] for it in rows(out)) == list(range(2000))


def test_a_job_that_is_killed_reads_each_record_once(kafka, job, name, tmp_path):
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    topic, out = make_topic(kafka, name("in"), 3), tmp_path / "out.ndjson"
    produce(kafka, topic, range(200), 3)
    running = job(to_file(kafka, topic, out))
    running.start()
    sent = 200
    for turn in range(6):
        for _ in range(draw.randrange(1, 5)):
            produce(kafka, topic, range(sent, sent + 500), 3)
            sent += 500
        time.sleep(draw.random())
        running.check()
        running.kill()
        running.start("--resume")
    wait(lambda: len(rows(out)) >= sent, 60, f"all records are read (seed {seed})")
    running.check()
    assert sorted(it["n"] for it in rows(out)) == list(range(sent)), f"seed {seed}"


@pytest.fixture
def own_kafka(tmp_path):
    started = []

    def start(**settings):
        found = Kafka(tmp_path / f"kafka{len(started)}", {name.replace("_", "."): value for name, value in settings.items()})
        started.append(found)
        return found.start()

    yield start
    for it in started:
        it.kill()
