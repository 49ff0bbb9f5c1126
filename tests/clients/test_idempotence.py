"""Idempotent producers: whatever answer is lost, each record is stored once, and its offset is the one it has."""

import random

import pytest

import wire
from agents import record
from waiting import wait
from proxy import PRODUCE, Proxy

pytestmark = pytest.mark.transactions

OK, OUT_OF_ORDER, INVALID_EPOCH, DUPLICATE = 0, 45, 47, 46


@pytest.fixture
def proxy(broker):
    found = Proxy(broker.address)
    yield found
    found.close()


@pytest.mark.parametrize("lost", [0, 2])
def test_r1_an_answer_is_lost(lost, client, own_agent, proxy, agent, open_clients, topic):
    """R1: the connection is cut after the append, before the answer; the client sends again by itself."""
    name = topic(3)
    producer = open_clients.producer(own_agent(client, proxy), idempotent=True, request_timeout_ms=3000, linger_ms=1)
    producer.must_send(name, [record("first", partition=i) for i in range(3)])
    said = {(i, 0): "first" for i in range(3)}
    for turn in range(4):
        rule = proxy.next(PRODUCE, "lose", lost)
        while not rule.answered.is_set():
            values = [f"{turn}:{len(said)}:{i}" for i in range(6)]
            for value, stored in zip(values, producer.must_send(name, [record(it, partition=i % 3) for i, it in enumerate(values)])):
                assert said.setdefault(stored[:2], value) == value, f"{stored} was said twice"
    found = open_clients.consumer(agent("java"), assign=[[name, i] for i in range(3)]).read(len(said))
    assert {(it.partition, it.offset): it.value for it in found} == said
    assert [agent("java").ask("list_offset", topic=name, partition=i, spec="latest")[0] for i in range(3)] == [sum(p == i for p, _ in said) for i in range(3)]


def test_r2_each_of_the_last_five_batches_can_come_again(broker, topic):
    name = topic()
    with wire.Connection(broker.address) as connection:
        _, id, epoch = wire.init_producer(connection)
        sent = [wire.batch([f"{i}:{n}".encode() for n in range(3)], producer=(id, epoch, 3 * i)) for i in range(8)]
        for i, it in enumerate(sent):
            assert wire.produce(connection, name, it) == (OK, 3 * i)
        for i in (7, 3, 5, 4, 6, 7, 3):
            assert wire.produce(connection, name, sent[i]) == (OK, 3 * i), f"batch {i} again"
        # What is older cannot be told from a gap; it must not be stored, whatever is said.
        assert wire.produce(connection, name, sent[0])[0] in (OUT_OF_ORDER, DUPLICATE)
        assert wire.list_offset(connection, name) == (OK, 24)
        # Part of a batch that was stored, and a batch behind a gap, are neither.
        assert wire.produce(connection, name, wire.batch([b"x"], producer=(id, epoch, 22)))[0] in (OUT_OF_ORDER, DUPLICATE)
        assert wire.produce(connection, name, wire.batch([b"x"], producer=(id, epoch, 25)))[0] == OUT_OF_ORDER
        assert wire.list_offset(connection, name) == (OK, 24)
        assert wire.produce(connection, name, wire.batch([b"x"], producer=(id, epoch, 24))) == (OK, 24)


def test_r2_also_after_a_restart_and_a_kill_and_when_the_records_are_gone(kind, own_broker, own_agent, name):
    # Kafka keeps no more than the last batch of a producer over a restart.
    first = 5 if kind == "kafka" else 1
    broker, topic = own_broker(), name()
    java = own_agent("java", broker)
    java.ask("create_topic", topic=topic, partitions=1)
    with wire.Connection(broker.address) as connection:
        _, id, epoch = wire.init_producer(connection)
        sent = [wire.batch([b"v"] * 2, producer=(id, epoch, 2 * i)) for i in range(7)]
        for i, it in enumerate(sent[:6]):
            assert wire.produce(connection, topic, it) == (OK, 2 * i)
    for turn in ("restart", "kill", "deleted"):
        if turn == "restart":
            broker.restart()
        elif turn == "kill":
            broker.kill()
            broker.start()
        else:
            assert java.ask("delete_records", topic=topic, partition=0, offset=-1) == 12
        with wire.Connection(broker.address) as connection:
            wait(lambda: wire.list_offset(connection, topic)[0] == OK, 20, "the partition is served")
            for i in range(first, 6):
                assert wire.produce(connection, topic, sent[i]) == (OK, 2 * i), f"batch {i} after {turn}"
            assert wire.list_offset(connection, topic) == (OK, 12)
    with wire.Connection(broker.address) as connection:
        assert wire.produce(connection, topic, wire.batch([b"v"], producer=(id, epoch, 13)))[0] == OUT_OF_ORDER
        assert wire.produce(connection, topic, sent[6]) == (OK, 12)


def test_epochs_and_sequences(broker, topic):
    name = topic()
    with wire.Connection(broker.address) as connection:
        _, id, epoch = wire.init_producer(connection)
        send = lambda epoch, sequence: wire.produce(connection, name, wire.batch([b"v"], producer=(id, epoch, sequence)))
        assert send(epoch, 0) == (OK, 0)
        # A new epoch begins at 0 again, and ends the old one.
        assert send(epoch + 1, 1)[0] == OUT_OF_ORDER
        assert send(epoch + 1, 0) == (OK, 1)
        assert send(epoch, 1)[0] == INVALID_EPOCH
        assert send(epoch, 0)[0] == INVALID_EPOCH
        assert send(epoch + 1, 1) == (OK, 2)
        # Another id is another producer.
        code, other, _ = wire.init_producer(connection)
        assert code == OK and other != id
        assert wire.produce(connection, name, wire.batch([b"v"], producer=(other, 0, 0))) == (OK, 3)
        assert wire.list_offset(connection, name) == (OK, 4)


def test_without_a_producer_epoch_and_sequence_mean_nothing(broker, topic):
    """Clients fill them in differently: franz-go says sequence 0."""
    name = topic()
    with wire.Connection(broker.address) as connection:
        for i, it in enumerate(((-1, -1, -1), (-1, -1, 0), (-1, 0, 0), (-1, 0, 7), (-1, -1, 0))):
            assert wire.produce(connection, name, wire.batch([b"v"], producer=it)) == (OK, i), f"{it}"


def test_sequences_wrap_around(broker, topic):
    name, last = topic(), 2**31 - 1
    with wire.Connection(broker.address) as connection:
        _, id, epoch = wire.init_producer(connection)
        # A producer that is not known may begin anywhere: its past was deleted.
        assert wire.produce(connection, name, wire.batch([b"v"] * 2, producer=(id, epoch, last - 1))) == (OK, 0)
        assert wire.produce(connection, name, wire.batch([b"v"] * 3, producer=(id, epoch, 1)))[0] == OUT_OF_ORDER
        assert wire.produce(connection, name, wire.batch([b"v"] * 3, producer=(id, epoch, 0))) == (OK, 2)
        assert wire.produce(connection, name, wire.batch([b"v"] * 2, producer=(id, epoch, last - 1))) == (OK, 0)
        # A batch that itself goes over the end.
        _, id, epoch = wire.init_producer(connection)
        assert wire.produce(connection, name, wire.batch([b"v"] * 4, producer=(id, epoch, last - 1))) == (OK, 5)
        assert wire.produce(connection, name, wire.batch([b"v"], producer=(id, epoch, 2))) == (OK, 9)
        assert wire.produce(connection, name, wire.batch([b"v"] * 4, producer=(id, epoch, last - 1))) == (OK, 5)


def test_retries_at_random(broker, topic, request):
    """A producer that loses answers and connections at random, against a model of what must be stored."""
    seed = 7
    draw, name, stored = random.Random(seed), topic(), []
    connection = wire.Connection(broker.address)
    _, id, epoch = wire.init_producer(connection)
    sequence = 0
    for turn in range(150):
        values = [f"{turn}:{i}".encode() for i in range(draw.randint(1, 4))]
        sent = wire.batch(values, producer=(id, epoch, sequence))
        expected = len(stored)
        for _ in range(draw.choice((0, 0, 1, 2))):
            # Sent, and the connection given up at once: stored or not.
            connection.send(wire.produce_request(name, sent))
            draw.choice((connection.close, connection.abort))()
            connection = wire.Connection(broker.address)
        assert wire.produce(connection, name, sent) == (OK, expected), f"seed {seed}, turn {turn}"
        stored += values
        sequence += len(values)
    assert wire.list_offset(connection, name) == (OK, len(stored))
    connection.close()


def test_several_batches_in_flight_and_one_lost(broker, topic):
    """Five requests without waiting; the third never comes. Those behind it are refused and come again."""
    name = topic()
    with wire.Connection(broker.address) as connection:
        _, id, epoch = wire.init_producer(connection)
        sent = [wire.batch([f"{i}".encode()], producer=(id, epoch, i)) for i in range(5)]
        for i in (0, 1, 3, 4):
            connection.send(wire.produce_request(name, sent[i]))
        codes = [connection.answer().responses[0].partition_responses[0] for _ in range(4)]
        assert [it.error_code for it in codes] == [OK, OK, OUT_OF_ORDER, OUT_OF_ORDER]
        assert [wire.produce(connection, name, it) for it in sent[2:]] == [(OK, 2), (OK, 3), (OK, 4)]
        assert [wire.produce(connection, name, it) for it in sent] == [(OK, i) for i in range(5)]


def test_producers_are_described(agent, open_clients, broker, topic):
    name = topic()
    with wire.Connection(broker.address) as connection:
        _, id, epoch = wire.init_producer(connection)
        for i in range(3):
            wire.produce(connection, name, wire.batch([b"v"] * 2, producer=(id, epoch, 2 * i)))
    assert agent("java").ask("producers", topic=name, partition=0) == [[id, epoch, 5, -1]]
