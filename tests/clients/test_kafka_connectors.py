"""Jobs read and write topics of a cluster: every record once, whatever is killed or restarted meanwhile.

The cluster is an Apache Kafka, or a node of Tidemill that the jobs do not know to be one."""

import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from brokers import KINDS, Tidemill
from jobs import BINARY, add_partitions, committed, delete_topic, ends, make_topic, numbers, produce, source, to_topic
from waiting import wait

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=sorted(KINDS))
def kafka(request, tmp_path_factory):
    found = KINDS[request.param](tmp_path_factory.mktemp("cluster")).start()
    yield found
    found.check()
    found.kill()


KEPT = pytest.mark.parametrize("kept", [{}, {"checkpoint": {"every": "50ms"}}], ids=["ledger", "checkpoints"])
"""What a job keeps to go on from."""


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
    wait(lambda: "cannot fetch" in running.text(), 30, "the log says that it waits")
    wait(lambda: (running.stalled() or {}).get("part") == "x", 30, "the job says what waits")
    kafka.start()
    wait(lambda: running.stalled() is None, 30, "it waits no more, though nothing comes")
    produce(kafka, topic, range(1000, 2000), 2)
    wait(lambda: len(rows(out)) >= 2000, 60, "the job goes on")
    running.check()
    assert sorted(it["n"] for it in rows(out)) == list(range(2000))


@KEPT
def test_a_job_that_is_killed_reads_each_record_once(kafka, job, name, tmp_path, kept):
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    topic, out = make_topic(kafka, name("in"), 3), tmp_path / "out.ndjson"
    produce(kafka, topic, range(200), 3)
    running = job({**to_file(kafka, topic, out), **kept})
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


@KEPT
def test_partitions_that_are_added_are_read(kafka, job, name, tmp_path, kept):
    """From their first record, by a job that runs and by one that was away, with what was recorded before they were there."""
    topic, out = make_topic(kafka, name("in"), 2), tmp_path / "out.ndjson"
    meta = {"streamlet": "part", "offset": "offset"}
    produce(kafka, topic, range(200), 2)
    running = job({**to_file(kafka, topic, out, meta=meta), **kept})
    running.start()
    wait(lambda: len(rows(out)) >= 200, 60, "the first records are read")
    add_partitions(kafka, topic, 3)
    produce(kafka, topic, range(200, 500), 3)
    wait(lambda: len(rows(out)) >= 500, 60, "what is in the new partition is read while the job runs")
    running.check()
    running.kill()
    add_partitions(kafka, topic, 5)
    produce(kafka, topic, range(500, 1000), 5)
    for _ in range(2):
        running.start("--resume")
        wait(lambda: len(rows(out)) >= 1000, 60, "what came meanwhile is read")
        running.check()
        running.kill()
    found = rows(out)
    assert sorted(it["n"] for it in found) == list(range(1000))
    stored = [(it["part"], it["offset"]) for it in found]
    assert len(set(stored)) == 1000
    assert all(it["part"] == it["n"] % (2 if it["n"] < 200 else 3 if it["n"] < 500 else 5) for it in found)


@pytest.fixture(params=sorted(KINDS))
def own_kafka(request, tmp_path):
    """A cluster of the test's own, to be killed."""
    started = []

    def start():
        found = KINDS[request.param](tmp_path / f"cluster{len(started)}")
        started.append(found)
        return found.start()

    yield start
    for it in started:
        it.kill()


def test_rows_become_records_with_keys_and_partitions_as_kafkas_clients_choose(kafka, job, name):
    topic, out = make_topic(kafka, name("in"), 2), name("out")
    produce(kafka, topic, range(500), 2)
    sink = {"key": ["n"], "create": True, "partitions": 3}
    job(to_topic(kafka, topic, out, sink=sink, until="latest")).start().finish()
    found = committed(kafka, out, 3)
    assert sorted(value["n"] for records in found for _, _, value in records) == list(range(500))
    # The same keys through a client with the Java client's partitioner are in the same partitions.
    other = make_topic(kafka, name("other"), 3)
    producer = Producer({"bootstrap.servers": kafka.address, "partitioner": "murmur2_random"})
    for n in range(500):
        producer.produce(other, json.dumps({"n": n}), key=str(n))
    producer.flush(30)
    keys = [{key for _, key, _ in records} for records in found]
    assert keys == [{key for _, key, _ in records} for records in committed(kafka, other, 3)]


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_topic_that_is_not_there_is_refused_or_made(kafka, job, name, delivery):
    topic, out = make_topic(kafka, name("in")), name("out")
    produce(kafka, topic, range(10), 1)
    missing = job(to_topic(kafka, topic, out, delivery, until="latest")).start()
    assert missing.process.wait(30) != 0
    assert "has no topic" in missing.text() and "create: true" in missing.text()
    job(to_topic(kafka, topic, out, delivery, {"create": True}, until="latest")).start().finish()
    assert numbers(kafka, out, 1) == list(range(10))


def test_chunks_are_as_small_as_the_topic_takes(kafka, job, name):
    topic = make_topic(kafka, name("in"))
    out = make_topic(kafka, name("out"), **{"max.message.bytes": "20000"})
    produce(kafka, topic, range(6000), 1)
    job(to_topic(kafka, topic, out, until="latest")).start().finish()
    assert numbers(kafka, out, 1) == list(range(6000))


def test_a_topic_that_is_made_anew_under_a_sink_ends_its_job(kafka, job, name):
    topic, out = make_topic(kafka, name("in")), make_topic(kafka, name("out"))
    produce(kafka, topic, range(100), 1)
    running = job(to_topic(kafka, topic, out)).start()
    wait(lambda: len(numbers(kafka, out, 1)) == 100, 60, "rows come")
    delete_topic(kafka, out)
    make_topic(kafka, out)
    produce(kafka, topic, range(100, 200), 1)
    assert running.process.wait(60) != 0
    assert "it was deleted and made anew" in running.text(), running.text()[-3000:]
    assert numbers(kafka, out, 1) == []


def test_a_broker_that_is_killed_under_a_sink_is_waited_for(own_kafka, job, name):
    kafka = own_kafka()
    topic, outs = make_topic(kafka, name("in"), 2), [make_topic(kafka, name("out"), 2) for _ in range(2)]
    running = [job(to_topic(kafka, topic, out, delivery)).start() for out, delivery in zip(outs, ["exactly-once", "at-least-once"])]
    # The first columns.
    wait(lambda: all(it.process.poll() is not None for it in running), 30, "an empty topic is refused")
    produce(kafka, topic, range(100), 2)
    running = [job(to_topic(kafka, topic, out, delivery)).start() for out, delivery in zip(outs, ["exactly-once", "at-least-once"])]
    sent = 100
    for turn in range(2):
        for _ in range(5):
            produce(kafka, topic, range(sent, sent + 500), 2)
            sent += 500
        time.sleep(random.random() / 2)
        kafka.kill()
        time.sleep(1)
        kafka.start()
    produce(kafka, topic, range(sent, sent + 100), 2)
    sent += 100
    for out, it in zip(outs, running):
        wait(lambda: sum(ends(kafka, out, 2)) > 0 and len(set(numbers(kafka, out, 2))) == sent, 90, "all rows are there")
        it.check()
    once = Counter(range(sent))
    assert Counter(numbers(kafka, topic, 2)) == once, "the cluster has each record once"
    assert Counter(numbers(kafka, outs[0], 2)) == once


@KEPT
def test_a_job_that_is_killed_writes_each_row_once(kafka, job, name, kept):
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    topic, out = make_topic(kafka, name("in"), 3), make_topic(kafka, name("out"), 2)
    produce(kafka, topic, range(200), 3)
    running = job({**to_topic(kafka, topic, out), **kept}).start()
    stopped, sent = threading.Event(), [200]

    def load():
        while not stopped.is_set():
            produce(kafka, topic, range(sent[0], sent[0] + 100), 3)
            sent[0] += 100

    loading = threading.Thread(target=load)
    loading.start()
    try:
        kills = 0
        while kills < 10:
            time.sleep(draw.random() * 1.5)
            running.check()
            running.kill()
            running.start("--resume")
            kills += 1
    finally:
        stopped.set()
        loading.join()
    wait(lambda: len(numbers(kafka, out, 2)) >= sent[0], 90, f"all rows are there (seed {seed})")
    running.check()
    assert Counter(numbers(kafka, out, 2)) == Counter(range(sent[0])), f"seed {seed}"
    running.stop()
    produce(kafka, topic, range(sent[0], sent[0] + 100), 3)
    running.start("--resume")
    wait(lambda: len(numbers(kafka, out, 2)) >= sent[0] + 100, 60, "it goes on after a stop as well")
    assert Counter(numbers(kafka, out, 2)) == Counter(range(sent[0] + 100))


def test_a_process_that_was_thought_dead_writes_nothing_once_another_has_its_place(kafka, job, name, tmp_path):
    topic, out = make_topic(kafka, name("in")), make_topic(kafka, name("out"))
    produce(kafka, topic, range(100), 1)
    first = job(to_topic(kafka, topic, out)).start()
    wait(lambda: len(numbers(kafka, out, 1)) == 100, 60, "the first rows are there")
    first.process.send_signal(signal.SIGSTOP)
    # Its folder as it is, elsewhere: two processes that both think that they are the job.
    second = job(to_topic(kafka, topic, out))
    subprocess.run(["cp", "-r", str(first.data), str(second.data)], check=True)
    second.start("--resume")
    produce(kafka, topic, range(100, 200), 1)
    wait(lambda: len(numbers(kafka, out, 1)) == 200, 60, "the second goes on")
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(60) != 0
    assert "another process has resumed this job" in first.text()
    produce(kafka, topic, range(200, 300), 1)
    wait(lambda: len(numbers(kafka, out, 1)) == 300, 60, "the second is not disturbed for long")
    second.check()
    assert numbers(kafka, out, 1) == list(range(300))


def test_a_submitted_job_goes_on_when_its_node_is_killed(kafka, job, name, tmp_path):
    topic, out = make_topic(kafka, name("in"), 2), make_topic(kafka, name("out"), 2)
    produce(kafka, topic, range(100), 2)
    node = Tidemill(tmp_path / "node").start()
    try:
        written = job(to_topic(kafka, topic, out))
        line = [BINARY, "job", "submit", str(written.file), "--http", f"127.0.0.1:{node.http_port}"]
        subprocess.run(line, check=True, capture_output=True, text=True)
        sent = 100
        for _ in range(3):
            produce(kafka, topic, range(sent, sent + 400), 2)
            sent += 400
            time.sleep(random.random())
            node.kill()
            node.start()
        wait(lambda: len(numbers(kafka, out, 2)) >= sent, 60, "all rows are there")
        assert Counter(numbers(kafka, out, 2)) == Counter(range(sent))
        assert node.stop() < 5
    finally:
        node.kill()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_job_whose_sinks_cluster_is_away_can_be_stopped_and_goes_on(kafka, own_kafka, job, name, delivery):
    away = own_kafka()
    topic, out = make_topic(kafka, name("in")), make_topic(away, name("out"))
    produce(kafka, topic, range(100), 1)
    spec = to_topic(away, topic, out, delivery)
    spec["sources"]["x"]["kafka"]["brokers"] = kafka.address
    running = job(spec).start()
    wait(lambda: len(set(numbers(away, out, 1))) == 100, 60, "the first rows are there")
    away.kill()
    produce(kafka, topic, range(100, 200), 1)
    wait(lambda: "a job stalls" in running.text(), 60, "the job says that it waits")
    running.stop(10)
    assert running.process.returncode != 0 and "resumed, it goes on" in running.text()
    away.start()
    running.start(*(["--resume"] if delivery == "exactly-once" else []))
    wait(lambda: len(set(numbers(away, out, 1))) == 200, 60, "it goes on")
    if delivery == "exactly-once":
        assert numbers(away, out, 1) == list(range(200))


def log_ends(kafka, topic, partitions):
    """Where the logs end, records of open transactions counted."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "log-ends", "isolation.level": "read_uncommitted"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, it), 30)[1] for it in range(partitions)]
    finally:
        consumer.close()


def killed_in_a_transaction(kafka, topic, out, running, sent):
    """Kills a job until it leaves a transaction open; gives how many records were sent."""
    watcher = Consumer({"bootstrap.servers": kafka.address, "group.id": "watcher", "isolation.level": "read_uncommitted"})
    ends_now = lambda: [watcher.get_watermark_offsets(TopicPartition(out, it), 30)[1] for it in range(2)]
    try:
        for _ in range(50):
            before = ends_now()
            produce(kafka, topic, range(sent, sent + 2000), 2)
            sent += 2000
            # The first rows of a transaction that has megabytes of them: the others are on their way.
            while ends_now() == before:
                running.check()
            running.kill()
            if ends_now() != ends(kafka, out, 2):
                return sent
            running.start("--resume")
    finally:
        watcher.close()
    raise AssertionError("no kill left a transaction open")


def test_f1_a_job_that_was_down_for_longer_than_its_transactions_may_last(kafka, job, name):
    topic, out = make_topic(kafka, name("in"), 2), make_topic(kafka, name("out"), 2)
    produce(kafka, topic, range(100), 2)
    spec = to_topic(kafka, topic, out, sink={"transaction_timeout": "1s"})
    spec["stages"] = {"wide": {"from": "x", "select": {"n": "n", "more": "repeat('x', 4000)"}}}
    spec["sinks"]["y"]["from"] = "wide"
    running = job(spec).start()
    wait(lambda: len(numbers(kafka, out, 2)) == 100, 60, "the first rows are there")
    sent = killed_in_a_transaction(kafka, topic, out, running, 100)
    # Nobody ends it but the cluster, when its time is up.
    wait(lambda: log_ends(kafka, out, 2) == ends(kafka, out, 2), 60, "the cluster has aborted it")
    running.start("--resume")
    wait(lambda: len(numbers(kafka, out, 2)) >= sent, 60, "all rows are there")
    running.check()
    assert Counter(numbers(kafka, out, 2)) == Counter(range(sent))


def test_f2_transactions_of_killed_lives_hold_no_reader_back_and_ids_are_used_again(kafka, job, name):
    topic, out = make_topic(kafka, name("in"), 2), make_topic(kafka, name("out"), 2)
    produce(kafka, topic, range(100), 2)
    spec = to_topic(kafka, topic, out, sink={"transaction_timeout": "15m"})
    spec["name"] = name("often")
    running, sent = job(spec).start(), 100
    draw = random.Random(len(spec["name"]))
    for _ in range(20):
        produce(kafka, topic, range(sent, sent + 200), 2)
        sent += 200
        time.sleep(draw.random() / 2)
        running.check()
        running.kill()
        running.start("--resume")
    # What the last life has to write.
    produce(kafka, topic, range(sent, sent + 200), 2)
    sent += 200
    # No transaction is waited for until it times out, in a quarter of an hour.
    wait(lambda: len(numbers(kafka, out, 2)) >= sent, 60, "all rows are there")
    assert Counter(numbers(kafka, out, 2)) == Counter(range(sent))
    running.stop()
    assert log_ends(kafka, out, 2) == ends(kafka, out, 2), "a transaction is open"
    admin = AdminClient({"bootstrap.servers": kafka.address})
    # It asks the brokers that it knows.
    admin.list_topics(timeout=30)
    groups = [it.group_id for it in admin.list_consumer_groups().result(30).valid]
    mine = [it for it in groups if it.startswith(f"tidemill-{spec['name']}-")]
    assert len(mine) == 1, f"one id, and a group of its name, for all lives: {groups}"


def test_f3_nothing_counts_before_a_slow_broker_has_it(own_kafka, job, name):
    kafka = own_kafka()
    topic, out = make_topic(kafka, name("in"), 2), make_topic(kafka, name("out"), 2)
    produce(kafka, topic, range(500), 2)
    spec = {**to_topic(kafka, topic, out), "checkpoint": {"every": "100ms"}}
    running, sent = job(spec).start(), 500
    wait(lambda: len(numbers(kafka, out, 2)) == sent, 60, "the first rows are there")
    for turn in range(3):
        produce(kafka, topic, range(sent, sent + 3000), 2)
        sent += 3000
        # While it is sent: nobody answers for two seconds, and the job dies meanwhile.
        kafka.pause()
        time.sleep(2)
        running.check()
        running.kill()
        kafka.go_on()
        running.start("--resume")
    wait(lambda: len(numbers(kafka, out, 2)) >= sent, 90, "all rows are there")
    running.check()
    assert Counter(numbers(kafka, out, 2)) == Counter(range(sent))


def test_f4_cycles_without_rows_are_committed_as_others_are(kafka, job, name):
    topic, out = make_topic(kafka, name("in")), make_topic(kafka, name("out"))
    produce(kafka, topic, range(1, 2), 1)
    spec = {**to_topic(kafka, topic, out), "checkpoint": {"every": "50ms"}}
    spec["stages"] = {"tens": {"from": "x", "where": "n % 10 = 0"}}
    spec["sinks"]["y"]["from"] = "tens"
    running = job(spec).start()
    for n in range(2, 7):
        before = committed_cycle(running)
        produce(kafka, topic, [n], 1)
        wait(lambda: committed_cycle(running) > before, 30, "a cycle without rows is committed")
    running.kill()
    running.start("--resume")
    produce(kafka, topic, range(10, 31), 1)
    wait(lambda: len(numbers(kafka, out, 1)) >= 3, 60, "rows come in later cycles")
    running.check()
    assert numbers(kafka, out, 1) == [10, 20, 30]


def committed_cycle(running):
    lines = running.text().splitlines()
    told = [json.loads(line) for line in lines if line.startswith('{"type":"progress"') and line.endswith("}")]
    return max((it["job"]["cycle_committed"] for it in told), default=0)
