"""Stream processors of others on our broker: Kafka Streams and Flink's connector, exactly once, killed and restarted."""

import random
import time
from collections import Counter, defaultdict

import pytest

import agents
import wire
from waiting import wait
from engines import Engine

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]
WORDS = ("weir", "sluice", "race", "wheel", "stone", "flour", "tide")


class Place:
    """A broker that can be killed, a source with words in it and an empty sink."""

    def __init__(self, broker, own_agent, name):
        self.broker, self.own_agent = broker, own_agent
        self.java = own_agent("java", broker)
        self.source, self.sink = name("source"), name("sink")
        for it in (self.source, self.sink):
            self.java.ask("create_topic", topic=it, partitions=4)
        self.written, self.random = Counter(), random.Random(7)
        self.producer = agents.Producer(self.java, "writer", idempotent=True)

    def write(self, count):
        words = [self.random.choice(WORDS) for _ in range(count)]
        self.producer.must_send(self.source, [agents.record(it, key=f"k{i}", partition=i % 4) for i, it in enumerate(words)])
        self.written.update(words)

    def restart(self):
        self.broker.kill()
        self.broker.start()

    def results(self, read, seconds):
        """What committed readers see in the sink: for each word the counts, in their order, once all are there."""
        consumer = agents.Consumer(self.own_agent("librdkafka", self.broker), "reader", assign=[[self.sink, i] for i in range(4)], **{"from": "earliest"}, isolation="read_committed")
        found, end = defaultdict(list), time.monotonic() + seconds
        while sum(map(len, found.values())) < sum(self.written.values()):
            assert time.monotonic() < end, f"{ {it: len(found[it]) for it in WORDS} } of {self.written}"
            for it in consumer.poll(500, 1000):
                word, count = read(it)
                found[word].append(int(count))
        # Nothing comes twice.
        for it in consumer.poll(1, 3000):
            pytest.fail(f"one too many: {it}")
        consumer.close()
        return found


@pytest.fixture
def place(own_broker, own_agent, name):
    return Place(own_broker(), own_agent, name)


@pytest.fixture
def engine(tmp_path):
    started = []

    def start(*arguments):
        started.append(Engine(*arguments, tmp_path / "engine.log"))
        return started[-1]

    yield start
    for it in started:
        it.kill()


def test_kafka_streams_counts_each_record_once(place, engine, name, tmp_path):
    application = name("counts")

    def start():
        app = engine("streams", "Counts", [place.broker.address, application, place.source, place.sink, tmp_path / "state"])
        app.wait_for("running", 90)
        return app

    def some_results(more):
        with wire.Connection(place.broker.address) as connection:
            wait(lambda: sum(wire.list_offset(connection, place.sink, partition=i)[1] for i in range(4)) > more, 60, "results")

    place.write(1_000)
    app = start()
    some_results(200)
    place.write(1_000)
    app.kill()
    app = start()
    place.write(1_000)
    some_results(2_500)
    place.restart()
    place.write(1_000)
    found = place.results(lambda it: (it.key, it.value), 120)
    assert {it: found[it] for it in WORDS} == {it: list(range(1, place.written[it] + 1)) for it in WORDS}
    app.close()


def test_flink_counts_each_record_once(place, engine, tmp_path):
    place.write(4_000)
    folder = tmp_path / "checkpoints"
    job = engine("flink", "Totals", [place.broker.address, place.source, place.sink, folder, 700])
    wait(lambda: (folder / "failed").exists() or job.process.poll() is not None, 120, "the job fails on purpose")
    place.restart()
    job.wait_for("finished", 200)
    found = place.results(lambda it: it.value.split(), 60)
    assert {it: sorted(found[it]) for it in WORDS} == {it: list(range(1, place.written[it] + 1)) for it in WORDS}
