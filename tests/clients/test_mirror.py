"""MirrorMaker 2 in both directions between an Apache Kafka and our broker: records, settings and groups' offsets, and all records
though it or the node is killed."""

import json

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from brokers import KINDS
from connect import PATIENCE_S, SESSION_MS, Mirror, Reader, no_complaints
from jobs import add_partitions, ends, make_topic, produce
from waiting import wait

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

LEAST, ONCE = "at-least-once", "exactly-once"


class Pair:
    """Two clusters and a MirrorMaker between them; `near` is the one under test."""

    def __init__(self, far, near, folder, once):
        self.once = once
        # What a MirrorMaker keeps has their names in its own.
        self.clusters = {f"{part}-once" if once else part: it for part, it in {"far": far, "near": near}.items()}
        first, second = self.clusters
        settings = {
            "clusters": f"{first},{second}",
            f"{first}->{second}.enabled": "true",
            f"{second}->{first}.enabled": "true",
            "topics": "mirrored-.*",
            "groups": "reading-.*",
            "tasks.max": 2,
            "offset.lag.max": 0,
            "sync.group.offsets.enabled": "true",
            "replication.factor": 1,
        }
        for what in ["refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls", "emit.checkpoints", "emit.heartbeats", "sync.group.offsets"]:
            settings[f"{what}.interval.seconds"] = 1
        for what in ["checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "config.storage", "offset.storage", "status.storage"]:
            settings[f"{what}.replication.factor"] = 1
        for what in ["offset.storage", "status.storage"]:
            settings[f"{what}.partitions"] = 2
        of_each = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 1_000, "scheduled.rebalance.max.delay.ms": 0, "offset.flush.interval.ms": 300}
        if once:
            of_each |= {"exactly.once.source.support": "enabled", "consumer.isolation.level": "read_committed"}
            # One that begins reads to an end that is behind what the one before had open.
            of_each |= {"producer.transaction.timeout.ms": 20_000}
        for alias, it in self.clusters.items():
            settings |= {f"{alias}.{name}": value for name, value in {"bootstrap.servers": it.address, **of_each}.items()}
        self.mirror = Mirror(folder / "mirror", settings)

    def direction(self, which):
        """Where from, where to, and the name of a topic there."""
        aliases = list(self.clusters)
        source, target = aliases if which == "to-near" else aliases[::-1]
        return self.clusters[source], self.clusters[target], lambda topic: f"{source}.{topic}"

    @property
    def near(self):
        return list(self.clusters.values())[1]


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    found = KINDS["kafka"](tmp_path_factory.mktemp("far")).start()
    yield found
    found.kill()


@pytest.fixture(scope="module")
def pair(request, kind, far, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    near = KINDS[kind](folder / "near").start()
    found = Pair(far, near, folder, request.param == ONCE)
    try:
        found.mirror.start()
        yield found
        for it in [far, near, found.mirror]:
            it.check()
        no_complaints(near, [found.mirror])
    finally:
        found.mirror.kill()
        near.kill()


def of(*kinds):
    return pytest.mark.parametrize("pair", kinds, indirect=True)


BOTH_WAYS = pytest.mark.parametrize("which", ["to-near", "to-far"])


@pytest.fixture
def reader():
    opened = []

    def open_(*arguments):
        opened.append(Reader(*arguments))
        return opened[-1]

    yield open_
    for it in opened:
        it.close()


def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.address})


def has(cluster, topic, partitions):
    """Waits until a topic is there with so many partitions."""
    known = admin(cluster)

    def there():
        found = known.list_topics(timeout=30).topics
        return topic in found and len(found[topic].partitions) == partitions

    wait(there, PATIENCE_S, f"{topic} of {partitions} partitions")


def settings_of(cluster, topic, names):
    known, asked = admin(cluster), ConfigResource(ConfigResource.Type.TOPIC, topic)
    [found] = [it.result(30) for it in known.describe_configs([asked]).values()]
    return {it: found[it].value for it in names}


def change(cluster, topic, **settings):
    entries = [ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
    known, asked = admin(cluster), ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for it in known.incremental_alter_configs([asked]).values():
        it.result(30)


def records(reader):
    """All there is to a record that is copied, by partition."""
    found = {}
    for it in reader.messages():
        found.setdefault(it.partition(), []).append((it.offset(), it.timestamp(), it.key(), it.value(), it.headers()))
    return found


@of(LEAST)
@BOTH_WAYS
def test_records_and_settings_are_those_of_the_other_cluster(pair, which, reader, name):
    source, target, remote = pair.direction(which)
    names = ["max.message.bytes", "retention.ms", "cleanup.policy"]
    topic = make_topic(source, name("mirrored"), 3, **{"max.message.bytes": "200000", "retention.ms": "86400000"})
    producer = Producer({"bootstrap.servers": source.address, "enable.idempotence": True, "compression.type": "lz4"})
    for n in range(300):
        value = None if n % 7 == 3 else json.dumps({"n": n})
        producer.produce(topic, value, key=f"k{n}", partition=n % 3, timestamp=1_700_000_000_000 + n, headers=[("n", str(n).encode()), ("none", None)])
    assert producer.flush(PATIENCE_S) == 0
    has(target, remote(topic), 3)
    was, found = reader(source, topic, 3), reader(target, remote(topic), 3)
    wait(lambda: sum(map(len, records(found).values())) >= 300, PATIENCE_S, "all records are there")
    assert records(found) == records(was)
    wait(lambda: settings_of(target, remote(topic), names) == settings_of(source, topic, names), PATIENCE_S, "the settings are there")

    change(source, topic, max_message_bytes="300000", cleanup_policy="compact,delete")
    add_partitions(source, topic, 5)
    wait(lambda: settings_of(target, remote(topic), names) == {"max.message.bytes": "300000", "retention.ms": "86400000", "cleanup.policy": "compact,delete"}, PATIENCE_S, "settings follow")
    has(target, remote(topic), 5)
    produce(source, topic, range(300, 400), 5)
    found = reader(target, remote(topic), 5)
    wait(lambda: {json.loads(it.value())["n"] for it in found.messages() if it.value()} >= set(range(300, 400)), PATIENCE_S, "so do records of new partitions")


def committed_of(cluster, group, topic):
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": group})
    try:
        return [it.offset for it in consumer.committed([TopicPartition(topic, part) for part in range(2)], 30)]
    finally:
        consumer.close()


def commit(cluster, group, topic, offset):
    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, part, offset) for part in range(2)], asynchronous=False)
    finally:
        consumer.close()


@of(LEAST)
@BOTH_WAYS
def test_a_group_goes_on_in_the_other_cluster(pair, which, name):
    source, target, remote = pair.direction(which)
    topic, group = make_topic(source, name("mirrored"), 2), name("reading")
    produce(source, topic, range(200), 2)
    has(target, remote(topic), 2)
    wait(lambda: ends(target, remote(topic), 2) == [100, 100], PATIENCE_S, "all records are there")
    commit(source, group, topic, 50)
    # What is told of the middle may be somewhat before it, and never behind.
    wait(lambda: all(0 <= it <= 50 for it in committed_of(target, group, remote(topic))), PATIENCE_S, "the group is there")
    commit(source, group, topic, 100)
    wait(lambda: committed_of(target, group, remote(topic)) == [100, 100], PATIENCE_S, "it is at the end")

    produce(source, topic, range(200, 300), 2)
    consumer = Consumer({"bootstrap.servers": target.address, "group.id": group, "auto.offset.reset": "error"})
    try:
        consumer.subscribe([remote(topic)])
        found = []

        def all_are_read():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(json.loads(message.value())["n"])
            return len(found) >= 100

        wait(all_are_read, PATIENCE_S, "it reads on")
        assert sorted(found) == list(range(200, 300))
    finally:
        consumer.close()
    for it in [remote("checkpoints.internal"), remote("heartbeats"), "heartbeats"]:
        wait(lambda: ends(target, it, 1)[0] > 0, PATIENCE_S, f"{it} has something in it")


@of(LEAST, ONCE)
def test_all_records_arrive_whatever_is_killed(pair, reader, name):
    ways = []
    for which in ["to-near", "to-far"]:
        source, target, remote = pair.direction(which)
        topic = make_topic(source, name("mirrored"), 2)
        produce(source, topic, range(100), 2)
        ways.append((source, topic, target, remote(topic), reader(target, remote(topic), 2)))
    for _, _, target, copy, _ in ways:
        has(target, copy, 2)
    sent = 100

    def numbers(found):
        return [it["n"] for it in found.values()]

    def write(count):
        nonlocal sent
        for source, topic, *_ in ways:
            produce(source, topic, range(sent, sent + count), 2)
        sent += count

    def under_way():
        """Waits until what comes is copied, and there is more to copy."""
        before = [len(found.messages()) for *_, found in ways]

        def copies():
            write(100)
            return all(len(found.messages()) > it for (*_, found), it in zip(ways, before))

        wait(copies, PATIENCE_S, "something is copied both ways")
        write(500)

    def all_there(what):
        for *_, found in ways:
            wait(lambda: set(numbers(found)) == set(range(sent)), PATIENCE_S, what)

    under_way()
    pair.mirror.kill()
    pair.mirror.start()
    under_way()
    pair.near.kill()
    pair.near.start()
    under_way()
    all_there("whatever was killed")
    for _, _, target, copy, _ in ways:
        again = reader(target, copy, 2)
        wait(lambda: set(numbers(again)) == set(range(sent)), PATIENCE_S, "they stay")
        for part in range(2):
            values = [json.loads(it.value())["n"] for it in again.messages() if it.partition() == part]
            assert list(values if pair.once else dict.fromkeys(values)) == list(range(part, sent, 2))
