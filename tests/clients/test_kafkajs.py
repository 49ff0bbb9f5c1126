"""kafkajs, the client of most programs in Node.js: codecs, groups, transactions, and what its admin client asks.

It is not among the clients that all other tests are run with, as it reads only as a member of a group, and has no Zstandard."""

import pytest

from agents import KAFKAJS, Failed, record
from waiting import wait

CODECS = ("none", "gzip", "snappy")
# Milliseconds since 1970 of the first record that is written with a time.
T0 = 1_700_000_000_000
INVALID_PARTITIONS = 37
# An old epoch is refused with the one or the other.
FENCED = (47, 90)


@pytest.fixture
def kafkajs(agent):
    return agent(KAFKAJS)


def values(records):
    return sorted(it.value for it in records)


@pytest.mark.records
def test_kafkajs_writes_and_reads_what_others_do(kafkajs, agent, open_clients, topic, name):
    made, every = topic(2 * len(CODECS)), "".join(map(chr, range(256)))
    writers = [(client, codec) for client in (kafkajs, agent("librdkafka")) for codec in CODECS]
    written = []
    for partition, (client, codec) in enumerate(writers):
        records = [record(
            None if i % 7 == 3 else "" if i % 7 == 4 else f"{i}:{every}" * 3, key=None if i % 5 == 1 else f"k{i}", partition=partition, timestamp=T0 + i,
            headers=(("h", f"{i}"), ("bytes", every)) if i % 3 == 0 else ()) for i in range(150)]
        stored = open_clients.producer(client, codec=codec).must_send(made, records)
        assert [it[:2] for it in stored] == [(partition, i) for i in range(150)], f"places of {codec} by {client.client}"
        written += [(partition, i, it["timestamp"], it["key"], it["value"], tuple(tuple(it) for it in it["headers"])) for i, it in enumerate(records)]
    readers = {
        "kafkajs": open_clients.consumer(kafkajs, topics=[made], group=name("g")),
        "java": open_clients.consumer(agent("java"), assign=[[made, i] for i in range(len(writers))]),
    }
    for client, reader in readers.items():
        found = sorted(tuple(it)[1:] for it in reader.read(len(written)))
        assert found == sorted(written), f"read by {client}"


@pytest.mark.groups
def test_members_of_kafkajs_join_and_leave(own_agent, kafkajs, broker, open_clients, topic, name):
    source, group = topic(4), name("g")
    partitions = [(source, i) for i in range(4)]
    producer = open_clients.producer(kafkajs)
    one = open_clients.consumer(own_agent(KAFKAJS, broker), topics=[source], group=group)
    settle([one], partitions)
    write(producer, source, 0, 40)
    assert values(read([one], 40)) == numbers(0, 40)
    assert one.committed(*partitions) == [-1] * 4
    one.commit()
    assert one.committed(*partitions) == [10] * 4

    two = open_clients.consumer(own_agent(KAFKAJS, broker), topics=[source], group=group)
    settle([one, two], partitions)
    described = kafkajs.ask("describe_group", name=group)
    assert described["state"] == "Stable" and sorted(len(it[source]) for it in described["members"]) == [2, 2]
    write(producer, source, 40, 40)
    assert values(read([one, two], 40)) == numbers(40, 40)
    one.commit(), two.commit()

    open_clients.close(two)
    settle([one], partitions)
    write(producer, source, 80, 40)
    assert values(read([one], 40)) == numbers(80, 40)
    one.commit()
    assert one.committed(*partitions) == [30] * 4


def numbers(first, count):
    return [f"{i:03}" for i in range(first, first + count)]


def write(producer, source, first, count):
    producer.must_send(source, [record(it, partition=int(it) % 4) for it in numbers(first, count)])


def settle(members, partitions):
    """Waits until all partitions have one member each, and each member its share."""
    share = len(partitions) // len(members)

    def is_settled():
        held = [it.assignment() for it in members]
        return sorted(sum(held, [])) == partitions and all(len(it) == share for it in held)

    wait(is_settled, 30, f"{len(members)} members share {len(partitions)} partitions")


def read(members, count):
    """Polls all until together they have read that many records, and once more."""
    found = []

    def poll():
        for it in members:
            found.extend(it.poll(count, 100))
        return len(found) >= count

    wait(poll, 20, f"{count} records")
    poll()
    return found


@pytest.mark.transactions
def test_transactions_of_kafkajs(kafkajs, agent, open_clients, topic, name):
    source, target, group, id = topic(), topic(2), name("g"), name("tx")
    producer = open_clients.producer(kafkajs, transactional_id=id)
    offset = lambda: kafkajs.ask("committed", group=group, partitions=[[source, 0]])
    ends = {"abort_txn": (5, [-1]), "commit_txn": (7, [7])}
    for end, (at, stored) in ends.items():
        producer.begin()
        producer.must_send(target, [record(f"{end} {i}", partition=i % 2) for i in range(10)])
        producer.send_offsets(group=group, offsets=[[source, 0, at]])
        assert offset() == [-1]
        getattr(producer, end)()
        wait(lambda: offset() == stored, 10, f"{end} has ended")
    producer.begin()
    producer.must_send(target, [record("open", partition=i) for i in range(2)])
    kept = [f"commit_txn {i}" for i in range(10)]
    committed = open_clients.consumer(kafkajs, topics=[target], group=name("g"), isolation="read_committed")
    every = open_clients.consumer(kafkajs, topics=[target], group=name("g"))
    assert values(every.read(22)) == sorted([*kept, *(f"abort_txn {i}" for i in range(10)), "open", "open"])
    assert values(committed.read(10)) == kept and committed.poll(1, 300) == []
    producer.commit_txn()
    assert values(committed.read(2)) == ["open", "open"]
    # Whoever has the id now fences the one before.
    producer.begin()
    producer.must_send(target, [record("zombie")])
    heir = open_clients.producer(kafkajs, transactional_id=id)
    heir.begin()
    with pytest.raises(Failed) as refused:
        producer.commit_txn()
    assert refused.value.code in FENCED
    heir.must_send(target, [record("heir")])
    heir.commit_txn()
    assert values(committed.read(1)) == ["heir"]


@pytest.mark.records
def test_the_admin_client_of_kafkajs(kafkajs, broker, open_clients, name):
    made = name()
    assert kafkajs.ask("create_topic", topic=made, partitions=2, config={"retention.ms": "3600000"}) is True
    assert kafkajs.ask("create_topic", topic=made, partitions=2) is False, "it is there already"
    assert made in kafkajs.ask("topics")
    kafkajs.ask("create_partitions", topic=made, count=3)
    described = wait(lambda: (it := kafkajs.ask("describe_topic", topic=made)["partitions"]) and len(it) == 3 and it, 10, "the partition is added")
    node = described[0][1]
    assert described == [[i, node, 1, 1] for i in range(3)]
    with pytest.raises(Failed) as refused:
        kafkajs.ask("create_partitions", topic=made, count=1)
    assert refused.value.code == INVALID_PARTITIONS
    kafkajs.ask("alter_configs", topic=made, config={"max.message.bytes": "5000"})
    configs = wait(lambda: (it := kafkajs.ask("describe_configs", topic=made))["max.message.bytes"] == "5000" and it, 10, "it is altered")
    assert configs["retention.ms"] == "604800000", "what the request does not name is set no more"

    producer = open_clients.producer(kafkajs)
    producer.must_send(made, [record(f"{i}", partition=1, timestamp=T0 + 10 * i) for i in range(100)])
    spec = lambda it: kafkajs.ask("list_offset", topic=made, partition=1, spec=str(it))
    assert [spec(it) for it in ("earliest", "latest", T0 - 1, T0, T0 + 495, T0 + 990)] == [0, 100, 0, 0, 50, 99]
    # Behind all that there is kafkajs tells the end.
    assert spec(T0 + 991) == 100

    kafkajs.ask("delete_topic", topic=made)
    wait(lambda: made not in kafkajs.ask("topics"), 10, "the topic is gone")
