"""K5: a node to which nothing happens. Offsets are told truly, every reader gets on, nothing is lost.

`--soak-seconds 3600` is the hour; without it a short run shows that the checks work."""

import itertools
import threading
import time
from array import array

import pytest

import wire
from agents import CLIENTS, Consumer, Producer, record
from waiting import wait
from workers import Workers

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2 * 3600)]

OWN, SHARED_PARTITION, TRANSACTIONS_PARTITION = {it: i for i, it in enumerate(CLIENTS)}, len(CLIENTS), len(CLIENTS) + 1
OWN_RECORDS, SHARED_RECORDS, TRANSACTION_RECORDS = 20, 5, 8
TURN_S = 0.1
STUCK_S = 10
"""Nobody waits longer than this for an answer or for a record."""


def is_aborted(transaction):
    return transaction % 3 == 2


class Soak:
    """Writers and readers of every client and a writer of transactions, each with a process and a thread of its own.

    What they see is checked as it comes, so that an hour of it takes no memory: all that is kept is the offset of each
    record in the partition that the writers share."""

    def __init__(self, own_agent, broker, topic):
        self.own_agent, self.broker, self.topic = own_agent, broker, topic
        self.workers, self.open = Workers(), set()
        self.going, self.stopped = threading.Event(), threading.Event()
        self.written = {it: 0 for it in CLIENTS}
        self.shared = {it: array("q") for it in CLIENTS}
        self.transactions = 0
        self.read = {it: 0 for it in CLIENTS}
        self.missing = {}
        self.writers, self.readers = [], {}

    def start(self):
        for client in CLIENTS:
            self.writers.append(self.workers.start(self.write, client))
            self.workers.start(self.follow, client)
        self.writers.append(self.workers.start(self.transact))
        try:
            wait(lambda: self.workers.failures or len(self.open) == 2 * len(CLIENTS) + 1, 60, "all clients are open")
        finally:
            self.going.set()

    def _turns(self, what):
        self.open.add(what)
        self.going.wait()
        while not self.stopped.is_set() and not self.workers.failures:
            began = time.monotonic()
            yield
            time.sleep(max(0, TURN_S - (time.monotonic() - began)))

    def _send(self, producer, records):
        answers = producer.agent.ask("send", STUCK_S, id=producer.id, topic=self.topic, records=records)
        failed = [it for it in answers if isinstance(it, dict)]
        assert not failed, f"{failed[0]} and {len(failed) - 1} more"
        return [it[1] for it in answers]

    def write(self, client):
        producer, shared = Producer(self.own_agent(client, self.broker), client, idempotent=True, linger_ms=2), self.shared[client]
        for _ in self._turns(("writes", client)):
            first = self.written[client]
            own = [record(f"{client}:{first + i}", partition=OWN[client]) for i in range(OWN_RECORDS)]
            among = [record(f"{client}:{len(shared) + i}", partition=SHARED_PARTITION) for i in range(SHARED_RECORDS)]
            offsets = self._send(producer, own + among)
            # Nobody else writes there: the offset of a record is how many came before it.
            assert offsets[:OWN_RECORDS] == list(range(first, first + OWN_RECORDS)), f"{offsets[:OWN_RECORDS]} for {first} and those behind it"
            for offset in offsets[OWN_RECORDS:]:
                assert offset > (shared[-1] if shared else -1), f"{offset} after {shared[-1]}"
                shared.append(offset)
            self.written[client] = first + OWN_RECORDS

    def transact(self):
        producer = Producer(self.own_agent("java", self.broker), "transactions", transactional_id=self.topic)
        producer.init()
        for _ in self._turns("transacts"):
            number = self.transactions
            producer.begin()
            self._send(producer, [record(f"{number}:{i}", partition=TRANSACTIONS_PARTITION) for i in range(TRANSACTION_RECORDS)])
            producer.abort_txn() if is_aborted(number) else producer.commit_txn()
            self.transactions = number + 1

    def follow(self, client):
        self.readers[client] = self.own_agent(client, self.broker)
        consumer = Consumer(self.readers[client], client, topics=[self.topic], group=f"{self.topic}-{client}", isolation="read_committed")
        self.open.add(("follows", client))
        seen, moved, numbers, offsets = {}, {}, dict.fromkeys(CLIENTS, 0), {it: array("q") for it in CLIENTS}
        transaction, part, committed_at = 0, 0, time.monotonic()
        while not self.workers.failures:
            for it in consumer.poll(1000, 200):
                last, moved[it.partition] = seen.get(it.partition, -1), time.monotonic()
                assert it.offset > last if it.partition == TRANSACTIONS_PARTITION else it.offset == last + 1, f"{it} after {last}"
                seen[it.partition] = it.offset
                self.read[client] += 1
                if it.partition == TRANSACTIONS_PARTITION:
                    while is_aborted(transaction):
                        transaction += 1
                    assert it.value == f"{transaction}:{part}", f"{it.value} instead of {transaction}:{part}"
                    transaction, part = (transaction, part + 1) if part + 1 < TRANSACTION_RECORDS else (transaction + 1, 0)
                elif it.partition == SHARED_PARTITION:
                    writer, number = it.value.rsplit(":", 1)
                    assert int(number) == numbers[writer], f"{it} instead of number {numbers[writer]}"
                    numbers[writer] += 1
                    offsets[writer].append(it.offset)
                else:
                    assert it.value == f"{CLIENTS[it.partition]}:{it.offset}", f"{it}"
            now = time.monotonic()
            if seen and now > committed_at + 5:
                consumer.commit()
                committed_at = now
            if self.stopped.is_set() and not any(it.is_alive() for it in self.writers):
                self.missing[client] = self._missing(seen, offsets, transaction)
                if not self.missing[client]:
                    assert offsets == self.shared, "records of the shared partition are where the answers said"
                    return
            elif self.going.is_set() and len(seen) == TRANSACTIONS_PARTITION + 1:
                late = {partition: round(now - at, 1) for partition, at in moved.items() if now > at + STUCK_S}
                assert not late, f"no record of these partitions for so many seconds: {late}"

    def _missing(self, seen, offsets, transaction):
        """What a reader has not seen yet of what was written: (where it is, where it should be) by name."""
        found = {it: (seen.get(OWN[it], -1), self.written[it] - 1) for it in CLIENTS}
        found |= {f"{it}, shared": (len(offsets[it]), len(self.shared[it])) for it in CLIENTS}
        found["transactions"] = tuple(next(it for it in itertools.count(at) if not is_aborted(it)) for at in (transaction, self.transactions))
        return {name: (is_at, end) for name, (is_at, end) in found.items() if is_at != end}


def ends(broker, topic):
    with wire.Connection(broker.address) as connection:
        return [[wire.list_offset(connection, topic, partition=it, isolation=isolation) for isolation in (1, 0)] for it in range(TRANSACTIONS_PARTITION + 1)]


def test_k5_a_node_to_which_nothing_happens(request, own_broker, own_agent, name):
    seconds, topic, broker = request.config.getoption("--soak-seconds"), name(), own_broker()
    own_agent("java", broker).ask("create_topic", topic=topic, partitions=TRANSACTIONS_PARTITION + 1)
    soak = Soak(own_agent, broker, topic)
    soak.start()
    rss = broker.rss_bytes()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not soak.workers.failures:
        time.sleep(min(1, max(0, end - time.monotonic())))
    soak.stopped.set()
    for it in soak.workers.threads:
        it.join(90)
    assert not soak.workers.failures, soak.workers.failures
    left = [it.name for it in soak.workers.threads if it.is_alive()]
    java = own_agent("java", broker)
    groups = {it: java.ask("describe_group", name=f"{topic}-{it}") for it in CLIENTS} if left else {}
    assert not left, "\n".join([
        f"{left} did not end; readers miss {soak.missing}; committed and other ends are {ends(broker, topic)}; groups are {groups}",
        *(line for line in broker.log.read_text().splitlines() if "group" in line),
        *(f"{it}:\n{soak.readers[it].where()}" for it in soak.missing if soak.missing[it]),
    ])
    broker.check()
    written = sum(soak.written.values()) + sum(len(it) for it in soak.shared.values())
    print(
        f"\n{seconds:.0f} s, {written} records written, {soak.transactions} transactions, {sum(soak.read.values())} records read; "
        f"{rss >> 20} MB at the start, {broker.rss_bytes() >> 20} MB at the end, {broker.cpu_seconds():.0f} s of CPU")
    assert written > 100 * seconds and soak.transactions > seconds
