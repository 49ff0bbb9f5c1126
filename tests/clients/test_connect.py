"""Workers of Kafka Connect in a group, whose topics are our broker's: connectors made and changed by REST, workers and the node
killed, sources exactly once."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

import wire
from brokers import KINDS
from connect import PATIENCE_S, Group, Reader, no_complaints
from jobs import committed, make_topic, produce
from waiting import wait

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

LEAST, ONCE = "at-least-once", "exactly-once"


def of(*kinds):
    return pytest.mark.parametrize("group", kinds, indirect=True)


@pytest.fixture(scope="module")
def group(request, kind, tmp_path_factory):
    """Two workers, and a broker that only they have."""
    folder = tmp_path_factory.mktemp(request.param)
    broker = KINDS[kind](folder / "broker").start()
    more = {"exactly_once_source_support": "enabled", "consumer_isolation_level": "read_committed"} if request.param == ONCE else {}
    found = Group(broker, folder, **more)
    found.once = request.param == ONCE
    try:
        yield found.start()
        broker.check()
        no_complaints(broker, found.workers)
    finally:
        found.kill()
        broker.kill()


class Lines:
    """A file with a number in each line."""

    def __init__(self, path):
        self.path, self.count = path, 0

    def write(self, count):
        with open(self.path, "a") as out:
            out.writelines(f"{n}\n" for n in range(self.count, self.count + count))
        self.count += count

    def bytes(self, count):
        """How long the first of them are."""
        return sum(len(f"{n}\n") for n in range(count))


def rows(path):
    """What a sink has written."""
    text = Path(path).read_text() if Path(path).exists() else ""
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def wait_for(group, found, expected, what):
    """Waits until everything is there as often as it should be; exactly so where that is promised."""
    expected = Counter(expected)

    def there():
        seen = Counter(found())
        return seen >= expected and seen.keys() == expected.keys() and seen

    seen = wait(there, PATIENCE_S, what)
    if group.once:
        assert seen == expected, f"{what}: too often {seen - expected}"


@pytest.fixture
def reader(group):
    opened = []

    def open_(*arguments):
        opened.append(Reader(group.broker, *arguments))
        return opened[-1]

    yield open_
    for it in opened:
        it.close()


@of(LEAST, ONCE)
def test_a_source_is_paused_stopped_and_sent_back(group, reader, name, tmp_path):
    lines, source = Lines(tmp_path / "in.txt"), name("source")
    topic, other = (make_topic(group.broker, name(it)) for it in ["lines", "beside"])
    lines.write(100)
    group.make(source, "Source", file=lines.path, topic=topic)
    found = reader(topic)
    wait_for(group, found.values, range(100), "all lines are there")

    group.change(source, "pause", "PAUSED")
    lines.write(100)
    beside = name("beside")
    group.make(beside, "Source", file=lines.path, topic=other)
    wait_for(group, reader(other).values, range(200), "another one reads on")
    assert set(found.values()) == set(range(100)), "the one that is paused does not"
    group.delete(beside)
    group.change(source, "resume", "RUNNING")
    wait_for(group, found.values, range(200), "it goes on where it was")

    group.change(source, "stop", "STOPPED", tasks=0)
    where = {"filename": str(lines.path)}
    wait(lambda: group.offsets(source) == [(where, {"position": lines.bytes(200)})], PATIENCE_S, "its offset is told")
    group.set_offsets(source, [(where, {"position": lines.bytes(150)})])
    assert group.offsets(source) == [(where, {"position": lines.bytes(150)})]
    group.change(source, "resume", "RUNNING")
    again = [*range(200), *range(150, 200)]
    wait_for(group, found.values, again, "it goes on where it was sent")

    group.change(source, "stop", "STOPPED", tasks=0)
    group.ask("DELETE", f"/connectors/{source}/offsets")
    assert group.offsets(source) == []
    group.change(source, "resume", "RUNNING")
    wait_for(group, found.values, [*again, *range(200)], "it begins anew")
    group.delete(source)
    assert source not in group.ask("GET", "/connectors")


@of(LEAST)
def test_a_sink_is_paused_stopped_and_sent_back(group, name, tmp_path):
    topic, sink, out = make_topic(group.broker, name("numbers"), 2), name("sink"), tmp_path / "out.txt"
    settings = {"topics": topic, "tasks.max": 2}
    numbers = lambda path: [it["n"] for it in rows(path)]
    produce(group.broker, topic, range(100), 2)
    group.make(sink, "Sink", file=out, **settings)
    wait_for(group, lambda: numbers(out), range(100), "all records are there")

    group.change(sink, "pause", "PAUSED", tasks=2)
    produce(group.broker, topic, range(100, 200), 2)
    beside, other = name("beside"), tmp_path / "beside.txt"
    group.make(beside, "Sink", file=other, **settings)
    wait_for(group, lambda: numbers(other), range(200), "another one reads on")
    assert set(numbers(out)) == set(range(100)), "the one that is paused does not"
    group.delete(beside)
    group.change(sink, "resume", "RUNNING", tasks=2)
    wait_for(group, lambda: numbers(out), range(200), "it goes on where it was")

    group.change(sink, "stop", "STOPPED", tasks=0)
    first, second = ({"kafka_topic": topic, "kafka_partition": it} for it in range(2))
    at = lambda: sorted((where["kafka_partition"], at["kafka_offset"]) for where, at in group.offsets(sink))
    wait(lambda: at() == [(0, 100), (1, 100)], PATIENCE_S, "its offsets are told")
    group.set_offsets(sink, [(first, {"kafka_offset": 50}), (second, None)])
    assert at() == [(0, 50)]
    group.change(sink, "resume", "RUNNING", tasks=2)
    again = [*range(200), *range(100, 200, 2), *range(1, 200, 2)]
    wait_for(group, lambda: numbers(out), again, "it goes on where it was sent")

    group.change(sink, "stop", "STOPPED", tasks=0)
    group.ask("DELETE", f"/connectors/{sink}/offsets")
    assert at() == []
    group.change(sink, "resume", "RUNNING", tasks=2)
    wait_for(group, lambda: numbers(out), [*again, *range(200)], "it begins anew")
    group.delete(sink)


@of(LEAST)
def test_what_a_sink_cannot_read_is_in_another_topic(group, reader, name, tmp_path):
    topic, dead, sink, out = make_topic(group.broker, name("mixed")), name("dead"), name("sink"), tmp_path / "out.txt"
    producer = Producer({"bootstrap.servers": group.broker.address, "enable.idempotence": True})
    for n in range(100):
        producer.produce(topic, "none" if n % 10 == 3 else json.dumps({"n": n}), key=str(n))
    assert producer.flush(PATIENCE_S) == 0
    letters = {"topic.name": dead, "topic.replication.factor": 1, "context.headers.enable": "true"}
    group.make(
        sink, "Sink", file=out, topics=topic, **{"value.converter": "org.apache.kafka.connect.json.JsonConverter"},
        **{"value.converter.schemas.enable": "false", "errors.tolerance": "all"}, **{f"errors.deadletterqueue.{it}": value for it, value in letters.items()})
    written = lambda: {int(n) for n in re.findall(r"{n=(\d+)}\n", out.read_text() if out.exists() else "")}
    wait(lambda: written() == {n for n in range(100) if n % 10 != 3}, PATIENCE_S, "the others are written")
    found = reader(dead)
    wait(lambda: {int(it.key()) for it in found.messages()} == set(range(3, 100, 10)), PATIENCE_S, "they are told of")
    for it in found.messages():
        said = dict(it.headers())
        assert it.value() == b"none"
        assert (said["__connect.errors.topic"], said["__connect.errors.partition"], said["__connect.errors.offset"]) == (topic.encode(), b"0", it.key())
    group.wait_for(sink, "RUNNING")
    group.delete(sink)


@of(LEAST)
def test_workers_share_what_there_is_to_do(group, name, tmp_path):
    topic, sink, out = make_topic(group.broker, name("numbers"), 4), name("sink"), tmp_path / "out.txt"
    group.make(sink, "Sink", file=out, topics=topic, **{"tasks.max": 4})
    shared = lambda: Counter(group.tasks(sink)) == {it.id: 2 for it in group.workers}
    wait(shared, PATIENCE_S, "each worker has half of the tasks")
    stays, goes = group.workers
    goes.stop()
    produce(group.broker, topic, range(100), 4)
    wait(lambda: group.tasks(sink) == [stays.id] * 4, PATIENCE_S, "one has all of them")
    goes.start()
    wait(shared, PATIENCE_S, "each has half of them again")
    produce(group.broker, topic, range(100, 200), 4)
    wait_for(group, lambda: [it["n"] for it in rows(out)], range(200), "all records are there")
    group.delete(sink)


def in_a_transaction(group, topic):
    """Whether there are records of which nobody has said that they count."""
    with wire.Connection(group.broker.address) as connection:
        written, stable = (wire.list_offset(connection, topic, isolation=it)[1] for it in (0, 1))
    return written > stable


class Flow:
    """A file that grows, a source that writes its lines to a topic, and who reads that."""

    def __init__(self, group, reader, name, folder):
        self.group, self.lines = group, Lines(folder / "in.txt")
        self.topic, self.source = make_topic(group.broker, name("lines")), name("source")
        self.reader = reader(self.topic)
        self.lines.write(20)
        # A transaction is longer than what is read at once.
        once = {"exactly.once.support": "required", "transaction.boundary": "interval", "transaction.boundary.interval.ms": 500}
        group.make(self.source, "Source", file=self.lines.path, topic=self.topic, **(once if group.once else {}))

    def under_way(self):
        """Waits until the source writes what comes: there is more to write, and a transaction is open, if it has any."""
        before = len(self.reader.values())

        def writes():
            self.lines.write(20)
            return len(self.reader.values()) > before

        def has_begun():
            self.lines.write(20)
            return in_a_transaction(self.group, self.topic)

        wait(writes, PATIENCE_S, "the source writes")
        if self.group.once:
            wait(has_begun, PATIENCE_S, "a transaction is open")

    def arrives(self, what):
        wait(lambda: set(self.reader.values()) == set(range(self.lines.count)), PATIENCE_S, what)

    def check(self):
        """All lines are there in their order; once, where that is promised."""
        [records] = committed(self.group.broker, self.topic, 1)
        values = [it for _, _, it in records]
        assert list(values if self.group.once else dict.fromkeys(values)) == list(range(self.lines.count))


@of(LEAST, ONCE)
def test_workers_and_the_node_are_killed_and_everything_arrives(group, reader, name, tmp_path):
    flow, sink, out = Flow(group, reader, name, tmp_path), name("sink"), tmp_path / "out.txt"
    group.make(sink, "Sink", file=out, topics=flow.topic)
    flow.under_way()
    killed = group.worker_of(flow.source)
    killed.kill()
    flow.under_way()
    group.broker.kill()
    flow.lines.write(20)
    group.broker.start()
    flow.under_way()
    killed.start()
    flow.under_way()
    other = group.worker_of(sink)
    other.kill()
    flow.under_way()
    flow.arrives("all lines are in the topic")
    wait(lambda: set(rows(out)) == set(range(flow.lines.count)), PATIENCE_S, "and in the sink's file")
    flow.check()
    other.start()
    group.delete(flow.source)
    group.delete(sink)


@of(ONCE)
def test_a_worker_that_was_away_for_too_long_is_fenced(group, reader, name, tmp_path):
    flow = Flow(group, reader, name, tmp_path)
    flow.under_way()
    away = group.worker_of(flow.source)
    [stays] = [it for it in group.workers if it is not away]

    def stands_still():
        flow.under_way()
        away.pause()
        if in_a_transaction(group, flow.topic):
            return True
        away.go_on()
        return False

    wait(stands_still, PATIENCE_S, "it stands still in a transaction")
    said = len(away.text())
    try:
        wait(lambda: group.tasks(flow.source) == [stays.id], PATIENCE_S, "the other one has its task")
        flow.under_way()
        flow.arrives("all lines are there")
    finally:
        away.go_on()
    wait(lambda: re.search("fenced|ProducerFenced|InvalidProducerEpoch", away.text()[said:]), PATIENCE_S, "it is told that another one has taken over")
    flow.under_way()
    flow.arrives("all others too")
    wait(away.is_ready, PATIENCE_S, "it is in its group again")
    flow.check()
    group.delete(flow.source)
