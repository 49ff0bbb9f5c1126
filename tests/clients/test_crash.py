"""The node is killed, or loses power, at random moments under load, and every acknowledged record is accounted for."""

import random
import threading
import time

import pytest

import power
import wire
from agents import CLIENTS, Failed, Producer, Consumer, record
from brokers import KINDS
from waiting import wait
from history import History, Reading, Send
from workers import Workers

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

PARTITIONS = 4
BATCH = 40


class Load:
    """Writers of every client, one of transactions, and readers, each with a process and a thread of its own."""

    def __init__(self, own_agent, broker, topic):
        self.own_agent, self.broker, self.topic = own_agent, broker, topic
        self.sends, self.readings, self.outcomes = [], {}, {}
        self.stopped, self.ends, self.workers, self.open = threading.Event(), None, Workers(), set()

    def start(self):
        for client in CLIENTS:
            self.workers.start(self.write, client)
            self.workers.start(self.read, client)
        self.workers.start(self.transact)
        # Some clients cannot be made while nobody answers.
        wait(lambda: self.workers.failures or len(self.open) == 2 * len(CLIENTS), 60, "all clients are open")

    def write(self, client):
        options = {"idempotent": True, "linger_ms": 2, "delivery_timeout_ms": 110_000, "request_timeout_ms": 5000}
        producer = Producer(self.own_agent(client, self.broker), client, **options)
        self.open.add(("writes", client))
        turn = 0
        while not self.stopped.is_set():
            values = [f"{client}:{turn * BATCH + i}" for i in range(BATCH)]
            found = producer.agent.ask("send", 150, id=client, topic=self.topic, records=[record(it, partition=i % PARTITIONS) for i, it in enumerate(values)])
            for i, (value, stored) in enumerate(zip(values, found)):
                self.sends.append(Send(client, turn * BATCH + i, value, i % PARTITIONS, None if isinstance(stored, dict) else stored[1]))
            turn += 1
        assert any(it.producer == client and it.offset is not None for it in self.sends), f"{client} has written nothing"

    def transact(self):
        agent, turn, producer = self.own_agent("java", self.broker), 0, None
        while not self.stopped.is_set():
            name, values = f"t{turn}", [f"t{turn}:{i}" for i in range(8)]
            abort, ended = turn % 3 == 2, False
            self.outcomes[name] = "unknown"
            try:
                if producer is None:
                    producer = Producer(agent, f"tx{turn}", transactional_id="crash", request_timeout_ms=5000, delivery_timeout_ms=60_000, transaction_timeout_ms=60_000)
                    producer.init()
                producer.begin()
                stored = producer.must_send(self.topic, [record(it, partition=i % PARTITIONS) for i, it in enumerate(values)])
                self.sends += [Send("tx", turn * 8 + i, it, i % PARTITIONS, stored[i][1], name) for i, it in enumerate(values)]
                ended = True
                producer.abort_txn() if abort else producer.commit_txn()
                self.outcomes[name] = "aborted" if abort else "committed"
            except (Failed, AssertionError):
                # A new producer of this name aborts what is open; a commit that was on its way may have passed.
                if not ended:
                    self.sends += [Send("tx", turn * 8 + i, it, i % PARTITIONS, None, name) for i, it in enumerate(values)]
                    self.outcomes[name] = "aborted"
                producer = None
            turn += 1

    def read(self, client):
        consumer = Consumer(self.own_agent(client, self.broker), client, assign=[[self.topic, i] for i in range(PARTITIONS)], isolation="read_committed")
        self.open.add(("reads", client))
        seen, deadline = {}, None
        self.readings[client] = found = []
        while True:
            try:
                polled = consumer.poll(500, 200)
            except Failed as error:
                # What a client reports while nobody answers; it goes on by itself.
                assert error.code in (-1, -185, -195, -187, 3, 5, 6, 9), f"{client}: {error}"
                continue
            found += [Reading(client, it.partition, it.offset, it.value) for it in polled]
            seen.update((it.partition, it.offset) for it in polled)
            # When all is over it goes on to the last record of every partition.
            if self.ends is not None:
                deadline = deadline or time.monotonic() + 60
                if all(seen.get(partition, -1) >= end for partition, end in self.ends.items()):
                    return
                assert time.monotonic() < deadline, f"{client} stands at {seen}, the ends are {self.ends}"


def read_all(own_agent, broker, topic):
    """Everything that is committed, once nothing is open any more, by a reader that was never there before."""
    with wire.Connection(broker.address) as connection:
        both = lambda: [[wire.list_offset(connection, topic, partition=i, isolation=it) for i in range(PARTITIONS)] for it in (0, 1)]
        wait(lambda: (it := both())[0] == it[1] and all(code == 0 for code, _ in it[0]), 75, "no transaction is open")
        ends = [offset for _, offset in both()[0]]
    consumer = Consumer(own_agent("franz-go", broker), "last", assign=[[topic, i] for i in range(PARTITIONS)], isolation="read_committed")
    marker = Producer(own_agent("librdkafka", broker), "marker")
    marker.must_send(topic, [record("end", partition=i) for i in range(PARTITIONS)])
    found, over, deadline = [], set(), time.monotonic() + 60
    while len(over) < PARTITIONS:
        assert time.monotonic() < deadline, f"the ends {ends} are not reached"
        for it in consumer.poll(1000, 500):
            if it.value == "end":
                over.add(it.partition)
            else:
                found.append(Reading("last", it.partition, it.offset, it.value))
    return found


@pytest.fixture(params=["kill", "ext4", "xfs"])
def mortal(request, kind, own_broker, tmp_path):
    """A broker and what ends it: a kill, or a power cut of the file system that its data are on."""
    if request.param == "kill":
        broker = own_broker()
        yield broker, broker.kill
        return
    why = power.missing()
    if why:
        pytest.skip(f"no power can be cut here: {why}")
    disk = power.Disk(tmp_path / "power", request.param)
    broker = KINDS[kind](tmp_path / "powered")
    broker.data = disk.place / "data"
    try:
        yield broker.start(), lambda: disk.cut(broker)
    finally:
        broker.kill()
        disk.remove()


def test_dies_under_load(mortal, request, own_agent, name):
    seconds = request.config.getoption("--crash-seconds")
    seed = request.config.getoption("--crash-seed")
    seed = seed if seed is not None else random.randrange(1 << 32)
    draw, (broker, die), topic = random.Random(seed), mortal, name()
    own_agent("java", broker).ask("create_topic", topic=topic, partitions=PARTITIONS)
    load = Load(own_agent, broker, topic)
    load.start()
    deaths, down, end = 0, [], time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            # Also in the middle of starting, and at once again.
            time.sleep(draw.choice((0.05, 0.4, draw.uniform(0.5, 4))))
            die()
            deaths += 1
            began = time.monotonic()
            broker.start()
            down.append(time.monotonic() - began)
    finally:
        load.stopped.set()
    # Readers go on until they know where the end is.
    wait(lambda: load.workers.failures or sum(it.is_alive() for it in load.workers.threads) == len(CLIENTS), 200, "the writers are done")
    last = read_all(own_agent, broker, topic)
    load.ends = {i: max((it.offset for it in last if it.partition == i), default=-1) for i in range(PARTITIONS)}
    for it in load.workers.threads:
        it.join(90)
    assert not load.workers.failures, f"seed {seed}: {load.workers.failures}"
    readings = [it for found in load.readings.values() for it in found if it.value != "end"]
    history = History(load.sends, readings, last, load.outcomes)
    offences = history.offences()
    assert not offences, f"seed {seed}, {deaths} deaths: {len(offences)}: {offences[:10]}"
    ended = list(load.outcomes.values())
    print(
        f"\n{deaths} deaths, at most {max(down):.1f} s until ready, {len(history.acknowledged())} records acknowledged, {len(last)} stored, "
        f"{len(readings)} read; transactions: {ended.count('committed')} committed, {ended.count('aborted')} aborted, {ended.count('unknown')} unknown")
    assert deaths >= 2 and len(history.acknowledged()) > 100 and "committed" in ended


@pytest.mark.parametrize("fsync", ["always", "10ms", "os"])
def test_what_a_power_cut_costs(fsync, kind, own_agent, name, tmp_path):
    """N2: each way to sync loses what the documentation says, and `os` shows that power is really cut."""
    why = power.missing() or (kind == "kafka" and "its ways to sync have other names")
    if why:
        pytest.skip(f"no power can be cut here: {why}")
    disk, topic, acknowledged = power.Disk(tmp_path / "power", "ext4"), name(), []
    broker = KINDS[kind](tmp_path / "powered", {"fsync": fsync})
    broker.data = disk.place / "data"
    try:
        broker.start()
        own_agent("java", broker).ask("create_topic", topic=topic, partitions=1)
        # What is said of the topic is durable in any case, and its segment is there.
        with wire.Connection(broker.address) as connection:
            end = time.monotonic() + 5
            while time.monotonic() < end:
                code, offset = wire.produce(connection, topic, wire.batch([b"value"]))
                assert (code, offset) == (0, len(acknowledged))
                acknowledged.append(time.monotonic())
        longest_sync = broker.longest_sync() if fsync == "10ms" else 0
        cut = time.monotonic()
        disk.cut(broker)
        broker.start()
        with wire.Connection(broker.address) as connection:
            wait(lambda: wire.list_offset(connection, topic)[0] == 0, 10, "the topic is served")
            kept = wire.list_offset(connection, topic)[1]
    finally:
        broker.kill()
        disk.remove()
    # The last of them may be durable without an acknowledgement.
    if fsync == "always":
        assert kept >= len(acknowledged)
    elif fsync == "10ms":
        # The sync that is under way when a record comes adds to the 10 ms, and then its own.
        early = sum(it < cut - 0.5 - 2 * longest_sync for it in acknowledged)
        assert kept >= early > 100
    else:
        assert kept < len(acknowledged), "nothing was lost: the power was not cut"
