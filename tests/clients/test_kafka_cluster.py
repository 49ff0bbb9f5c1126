"""Jobs with topics of an Apache Kafka of several brokers: who coordinates transactions, who keeps the sink's group and who
leads its partitions are not the same, and each is lost without the others."""

import random
import threading
import time
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import proxy
from brokers import KafkaCluster
from jobs import committed, make_topic, numbers, produce, to_topic
from waiting import wait

pytestmark = [pytest.mark.timeout(300)]

TRANSACTIONS, GROUPS, RECORDS = 1, 2, 3
"""The brokers that coordinate all transactions and all groups, and one that has records alone, where there is one copy of
each partition."""


def place(kafka, topic, brokers, **settings):
    """Makes a topic whose partitions are each on the broker that is said, and nowhere else."""
    admin = AdminClient({"bootstrap.servers": kafka.address})
    made = NewTopic(topic, len(brokers), replica_assignment=[[it] for it in brokers], config=settings)
    for future in admin.create_topics([made]).values():
        future.result(30)
    return topic


@pytest.fixture(scope="module")
def parted(tmp_path_factory):
    """A cluster of which each broker has a part that no other one has."""
    found = KafkaCluster(tmp_path_factory.mktemp("parted"), brokers=3)
    try:
        found.start()
        place(found, "__transaction_state", [TRANSACTIONS] * 4, **{"cleanup.policy": "compact"})
        place(found, "__consumer_offsets", [GROUPS] * 4, **{"cleanup.policy": "compact"})
        yield found
        found.check()
    finally:
        found.kill()


class Writing:
    """A job that writes to a topic of two partitions, one where transactions are coordinated, one where only records are,
    through a proxy for each broker."""

    def __init__(self, kafka, job, name):
        self.kafka, self.sent = kafka, 0
        self.topic, self.out = place(kafka, name("in"), [TRANSACTIONS]), place(kafka, name("out"), [TRANSACTIONS, RECORDS])
        self.between = dict(zip(kafka.brokers, proxy.proxies([it.address for it in kafka.brokers.values()])))
        spec = to_topic(kafka, self.topic, self.out, sink={"key": ["n"]})
        spec["sources"]["x"]["kafka"]["brokers"] = kafka.brokers[TRANSACTIONS].address
        spec["sinks"]["y"]["kafka"]["brokers"] = ",".join(it.address for it in self.between.values())
        self.send()
        self.running = job(spec).start()

    def send(self):
        produce(self.kafka, self.topic, range(self.sent, self.sent + 100), 1)
        self.sent += 100

    def next(self, broker, api, action):
        return self.between[broker].next(api, action)

    def are_there(self):
        self.running.check()
        return len(numbers(self.kafka, self.out, 2)) >= self.sent

    def wait(self, what):
        wait(self.are_there, 60, what)

    def resume(self):
        self.running.kill()
        self.running.start("--resume")

    def finish(self):
        """What the group's offset says is where a job goes on: then all rows are there once."""
        self.resume()
        self.send()
        self.wait("the job goes on")
        self.running.stop()
        assert '"end":"stopped"' in self.running.text(), self.running.text()[-3000:]
        assert Counter(numbers(self.kafka, self.out, 2)) == Counter(range(self.sent))

    def leave(self):
        self.running.kill()
        for it in self.between.values():
            it.close()


@pytest.fixture
def writing(parted, job, name):
    found = Writing(parted, job, name)
    found.wait("the first rows are there")
    yield found
    found.leave()


@pytest.mark.parametrize("api, at", [
    ("ADD_PARTITIONS", TRANSACTIONS), ("ADD_OFFSETS", TRANSACTIONS), ("PRODUCE", TRANSACTIONS), ("PRODUCE", RECORDS),
    ("TXN_OFFSET_COMMIT", GROUPS), ("END_TXN", TRANSACTIONS)])
def test_a_request_that_comes_late_counts_for_no_other_transaction(writing, api, at):
    # A connection is lost while this request is on its way.
    late = writing.next(at, getattr(proxy, api), "late")
    writing.send()
    assert late.met.wait(60)
    writing.wait("its transaction is made again")
    # It comes in the middle of a transaction that has all it needs.
    end = writing.next(TRANSACTIONS, proxy.END_TXN, "hold")
    writing.send()
    assert end.met.wait(60)
    late.release()
    assert late.answered.wait(60)
    end.release()
    writing.wait("the transaction counts")
    writing.finish()


def leads(kafka, topic, broker):
    known = AdminClient({"bootstrap.servers": kafka.address}).list_topics(topic, timeout=30).topics[topic]
    return any(it.leader == broker for it in known.partitions.values())


def killed(kafka, topic, broker):
    """Kills a broker; returns when the cluster knows."""
    kafka.brokers[broker].kill()
    wait(lambda: not leads(kafka, topic, broker), 60, "the cluster knows that the broker is gone")


def started(kafka, topic, broker):
    kafka.brokers[broker].start()
    wait(lambda: leads(kafka, topic, broker), 60, "the broker leads again")


def commit_while_away(writing, kafka):
    """A transaction is committed while the broker of some of its rows is dead."""
    end = writing.next(TRANSACTIONS, proxy.END_TXN, "hold")
    writing.send()
    assert end.met.wait(60)
    killed(kafka, writing.out, RECORDS)
    end.release()
    assert end.answered.wait(60)


def test_a_broker_that_was_away_when_a_transaction_was_committed_has_its_rows_too(writing, parted):
    commit_while_away(writing, parted)
    started(parted, writing.out, RECORDS)
    # The next transaction is aborted, and nothing else.
    more = writing.next(RECORDS, proxy.PRODUCE, "hold")
    writing.send()
    assert more.met.wait(60)
    writing.resume()
    writing.wait("all rows are there")
    writing.finish()


def test_a_job_that_is_killed_while_it_makes_up_for_an_end_that_a_broker_missed_goes_on_with_that(writing, parted):
    commit_while_away(writing, parted)
    # What is to end it again has begun, and gets no end.
    again = writing.next(TRANSACTIONS, proxy.END_TXN, "hold")
    started(parted, writing.out, RECORDS)
    writing.send()
    assert again.met.wait(60)
    writing.resume()
    writing.wait("all rows are there")
    again.release()
    assert again.answered.wait(60)
    writing.finish()


def test_a_broker_that_was_away_when_a_transaction_was_aborted_has_no_rows_of_it(writing, parted):
    end = writing.next(TRANSACTIONS, proxy.END_TXN, "hold")
    writing.send()
    assert end.met.wait(60)
    writing.running.kill()
    killed(parted, writing.out, RECORDS)
    writing.running.start("--resume")
    waits = ["a sink cannot be opened yet", "a job stalls"]
    wait(lambda: any(it in writing.running.text() for it in waits), 60, "the job waits for the broker")
    started(parted, writing.out, RECORDS)
    writing.wait("all rows are there")
    writing.finish()


def test_brokers_and_jobs_that_are_killed_leave_what_an_undisturbed_run_leaves(tmp_path, job, name):
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    kafka = KafkaCluster(tmp_path / "cluster", brokers=2, copies=2)
    stopped, loading = threading.Event(), None
    try:
        kafka.start()
        topic, out, undisturbed = (make_topic(kafka, name(it), 4, copies=2) for it in ["in", "out", "undisturbed"])
        produce(kafka, topic, range(200), 4)
        running, sent = job(to_topic(kafka, topic, out, sink={"key": ["n"]})).start(), [200]

        def load():
            while not stopped.is_set():
                produce(kafka, topic, range(sent[0], sent[0] + 100), 4)
                sent[0] += 100

        loading = threading.Thread(target=load)
        loading.start()
        # A broker alone, and the other one with the job.
        for broker, with_job in zip(draw.sample([1, 2], 2), [False, True]):
            time.sleep(draw.random() * 2)
            running.check()
            if with_job:
                running.kill()
            kafka.brokers[broker].kill()
            if with_job:
                running.start("--resume")
            before = sent[0]
            wait(lambda: sent[0] > before + 100, 60, "the other broker does all there is to do")
            running.check()
            kafka.brokers[broker].start()
            wait(lambda: all_have_copies(kafka, [topic, out, "__consumer_offsets", "__transaction_state"], 2), 60, "it has caught up")
        stopped.set()
        loading.join()
        wait(lambda: len(numbers(kafka, out, 4)) >= sent[0], 90, f"all rows are there (seed {seed})")
        running.stop()
        job(to_topic(kafka, topic, undisturbed, sink={"key": ["n"]}, until="latest")).start().finish()
        found, expected = ([sorted(it["n"] for _, _, it in part) for part in committed(kafka, it, 4)] for it in [out, undisturbed])
        assert Counter(numbers(kafka, topic, 4)) == Counter(range(sent[0])), "the cluster has each record once"
        assert found == expected, f"seed {seed}"
    finally:
        stopped.set()
        if loading:
            loading.join()
        kafka.kill()


def all_have_copies(kafka, topics, copies):
    """Whether all copies of all partitions are in sync."""
    known = AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=30).topics
    return all(len(it.isrs) == copies for topic in topics for it in known[topic].partitions.values())
