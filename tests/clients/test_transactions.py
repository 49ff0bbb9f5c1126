"""Transactions: committed whole or not seen at all, by every client; zombies are fenced, and nothing hangs."""

import threading
import time

import pytest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

import wire
from agents import CLIENTS, Failed, record
from waiting import wait
from proxy import ADD_PARTITIONS, END_TXN, PRODUCE, TXN_OFFSET_COMMIT, Proxy

pytestmark = pytest.mark.transactions

OK, INVALID_GROUP_ID, INVALID_EPOCH, INVALID_TXN_STATE, UNSTABLE, PRODUCER_FENCED, ABORTABLE = 0, 24, 47, 48, 88, 90, 120
# An old epoch is refused with the one or the other; clients take both for the end of the producer.
FENCED = (INVALID_EPOCH, PRODUCER_FENCED)
# What clients say of themselves when they were fenced: librdkafka has _FENCED, _STATE; others name the protocol's codes.
CLIENT_FENCED = (*FENCED, -144, -172, -1)
# Clients that speak version 2 of the protocol.
VERSION_2 = ("java",)
COMMITTED, ALL = "read_committed", "read_uncommitted"


@pytest.fixture
def proxy(broker):
    found = Proxy(broker.address)
    yield found
    found.close()


@pytest.fixture
def transactional(agent, open_clients, name):
    """transactional(client): a producer that has begun nothing yet."""

    def open_one(client, id=None, at=None, **options):
        found = open_clients.producer(at or agent(client), transactional_id=id or name("tx"), **options)
        found.init()
        return found

    return open_one


@pytest.fixture
def latest(broker):
    """latest(topic): the end as (read committed, everything)."""
    connection = wire.Connection(broker.address)
    yield lambda topic, partition=0: tuple(wire.list_offset(connection, topic, partition=partition, isolation=it)[1] for it in (1, 0))
    connection.close()


def values(consumer, count, seconds=20):
    return [it.value for it in consumer.read(count, seconds)]


def test_what_is_committed_is_read_and_what_is_aborted_is_not(client, agent, open_clients, topic, transactional, latest):
    name = topic()
    producer = transactional(client)
    for turn in range(5):
        producer.begin()
        producer.must_send(name, [record(f"{turn}:{i}") for i in range(10)])
        producer.abort_txn() if turn in (1, 3) else producer.commit_txn()
    # Ten records and the mark of the end, five times (R12: the mark has an offset of its own).
    wait(lambda: latest(name) == (55, 55), 15, "all transactions are over")
    kept = [(11 * turn + i, f"{turn}:{i}") for turn in (0, 2, 4) for i in range(10)]
    every = [(11 * turn + i, f"{turn}:{i}") for turn in range(5) for i in range(10)]
    for reader in CLIENTS:
        for isolation, expected in ((COMMITTED, kept), (ALL, every)):
            found = open_clients.consumer(agent(reader), assign=[[name, 0]], isolation=isolation).read(len(expected))
            assert [(it.offset, it.value) for it in found] == expected, f"{isolation} by {reader}"


def test_an_open_transaction_holds_back_what_is_behind_it(client, agent, open_clients, topic, transactional, latest):
    name = topic(2)
    plain, producer = open_clients.producer(agent("librdkafka")), transactional(client)
    plain.must_send(name, [record("before")])
    producer.begin()
    producer.must_send(name, [record("inside", partition=0), record("inside", partition=1)])
    plain.must_send(name, [record("behind")])
    assert latest(name) == (1, 3) and latest(name, 1) == (0, 1)
    readers = {it: open_clients.consumer(agent(it), assign=[[name, 0], [name, 1]], isolation=COMMITTED) for it in CLIENTS}
    for it in readers.values():
        assert values(it, 1) == ["before"] and it.poll(1, 300) == []
    producer.commit_txn()
    for reader, it in readers.items():
        assert sorted(values(it, 3)) == ["behind", "inside", "inside"], reader
    wait(lambda: latest(name) == (4, 4) and latest(name, 1) == (2, 2), 10, "nothing is held back")


def test_transactions_over_many_partitions_and_topics(client, agent, open_clients, topic, transactional):
    names = [topic(5), topic(5)]
    producer = transactional(client)
    for turn in range(4):
        producer.begin()
        for it in names:
            producer.must_send(it, [record(f"{turn}:{i}", partition=i % 5) for i in range(25)])
        producer.commit_txn() if turn % 2 else producer.abort_txn()
    found = open_clients.consumer(agent("java"), assign=[[it, i] for it in names for i in range(5)], isolation=COMMITTED).read(100)
    assert sorted((it.topic, it.value) for it in found) == sorted((it, f"{turn}:{i}") for it in names for turn in (1, 3) for i in range(25))


def test_empty_transactions(client, topic, transactional, latest):
    """F4: a transaction without records ends cleanly."""
    name, producer = topic(), transactional(client)
    for _ in range(3):
        producer.begin()
        producer.commit_txn()
        producer.begin()
        producer.abort_txn()
    producer.begin()
    producer.must_send(name, [record("x")])
    producer.commit_txn()
    wait(lambda: latest(name) == (2, 2), 10, "the records are committed")


def test_consume_transform_produce(client, agent, own_agent, broker, open_clients, topic, name):
    """Records and the offsets of what they were made from are committed together, also when some transactions abort."""
    source, target, group = topic(2), topic(2), name("g")
    open_clients.producer(agent("librdkafka")).must_send(source, [record(f"{i}", key=f"{i}", partition=i % 2) for i in range(100)])
    working = own_agent(client, broker)
    ask = {"source": source, "target": target, "group": group, "transactional_id": name("tx"), "abort": [1, 4]}
    done, transactions = working.ask("transform", count=100, **ask)
    assert done == 100 and transactions >= 7
    assert agent("java").ask("group_offsets", name=group) == {f"{source}-0": 50, f"{source}-1": 50}
    found = open_clients.consumer(agent("java"), assign=[[target, 0], [target, 1]], isolation=COMMITTED).read(100)
    assert sorted(int(it.value) for it in found) == list(range(100))
    # A second run begins where the first ended.
    open_clients.producer(agent("librdkafka")).must_send(source, [record(f"{i}", partition=i % 2) for i in range(100, 120)])
    assert own_agent(client, broker).ask("transform", count=20, **{**ask, "abort": []})[0] == 20
    reader = open_clients.consumer(agent("franz-go"), assign=[[target, 0], [target, 1]], isolation=COMMITTED)
    assert sorted(int(it) for it in values(reader, 120)) == list(range(120)) and reader.poll(1, 300) == []


def test_a_second_producer_fences_the_first(client, own_agent, broker, agent, open_clients, topic, transactional, latest, name):
    made, id = topic(), name("tx")
    first = transactional(client, id, at=own_agent(client, broker))
    first.begin()
    first.must_send(made, [record("lost")])
    second = transactional(client, id, at=own_agent(client, broker))
    # What the first had begun is aborted by that.
    wait(lambda: latest(made) == (2, 2), 15, "the first transaction is over")
    with pytest.raises(Failed) as refused:
        for it in first.send(made, [record("zombie")]):
            if isinstance(it, Failed):
                raise it
        first.commit_txn()
    assert refused.value.code in CLIENT_FENCED, f"{refused.value}"
    second.begin()
    second.must_send(made, [record("kept")])
    second.commit_txn()
    assert values(open_clients.consumer(agent("java"), assign=[[made, 0]], isolation=COMMITTED), 1) == ["kept"]


def test_a_transaction_that_lasts_too_long_is_aborted(client, own_agent, broker, agent, open_clients, topic, transactional, latest):
    """R10: readers go on at most ten seconds after its time is over; its producer cannot commit it any more. One of
    version 2 of the protocol aborts it and goes on."""
    name = topic()
    producer = transactional(client, at=own_agent(client, broker), transaction_timeout_ms=2500, delivery_timeout_ms=2000, request_timeout_ms=1500)
    producer.begin()
    producer.must_send(name, [record("lost")])
    open_clients.producer(agent("java")).must_send(name, [record("behind")])
    assert latest(name) == (0, 2)
    wait(lambda: latest(name) == (3, 3), 2.5 + 10, "the transaction is aborted")
    with pytest.raises(Failed) as refused:
        producer.commit_txn()
    goes_on = client in VERSION_2
    assert refused.value.code in ((ABORTABLE,) if goes_on else (*CLIENT_FENCED, INVALID_TXN_STATE)), f"{refused.value}"
    kept = ["behind"]
    if goes_on:
        producer.abort_txn()
        producer.begin()
        producer.must_send(name, [record("went on")])
        producer.commit_txn()
        kept.append("went on")
    assert values(open_clients.consumer(agent("java"), assign=[[name, 0]], isolation=COMMITTED), len(kept)) == kept


def test_transactions_are_listed_described_and_ended_by_an_admin(agent, topic, transactional, latest, name):
    java, made, id = agent("java"), topic(2), name("tx")
    producer = transactional("java", id, transaction_timeout_ms=45_000)
    producer.begin()
    producer.must_send(made, [record("x", partition=1)])
    found = java.ask("describe_transaction", name=id)
    assert (found["state"], found["timeout"], found["partitions"]) == ("Ongoing", 45_000, [[made, 1]])
    assert java.ask("transactions")[id] == "Ongoing"
    ((producer_id, epoch, _, start),) = java.ask("producers", topic=made, partition=1)
    assert (producer_id, start) == (found["producer"], 0) and epoch == found["epoch"]
    java.ask("fence_producer", name=id)
    wait(lambda: latest(made, 1) == (2, 2), 10, "the transaction is aborted")
    with pytest.raises(Failed) as refused:
        producer.commit_txn()
    assert refused.value.code in CLIENT_FENCED
    assert java.ask("features")["transaction.version"] == 2


def test_k1_a_commit_that_comes_late_touches_nothing(own_agent, proxy, agent, open_clients, topic, transactional, latest):
    """K1: the answer to a commit does not come, the client asks again, and goes on; then the first request arrives."""
    name = topic()
    producer = transactional("java", at=own_agent("java", proxy), request_timeout_ms=1500, delivery_timeout_ms=4000)
    producer.begin()
    producer.must_send(name, [record("kept")])
    rule = proxy.next(END_TXN, "hold")
    producer.commit_txn()
    assert rule.met.is_set()
    producer.begin()
    producer.must_send(name, [record("aborted")])
    rule.release()
    assert rule.answered.wait(10), "the late request is answered"
    # Neither committed nor aborted: it is still open.
    assert latest(name) == (2, 3)
    producer.must_send(name, [record("also aborted")])
    producer.abort_txn()
    wait(lambda: latest(name) == (5, 5), 10, "it is over")
    reader = open_clients.consumer(agent("librdkafka"), assign=[[name, 0]], isolation=COMMITTED)
    assert values(reader, 1) == ["kept"] and reader.poll(1, 500) == []


@pytest.mark.parametrize("held", [PRODUCE, ADD_PARTITIONS, TXN_OFFSET_COMMIT, END_TXN])
def test_k1_k2_an_old_request_after_the_end_is_refused(held, broker, topic, latest, name):
    """K2: with version 2 of the protocol every end makes a new epoch, so that nothing old joins the next transaction."""
    made, id, group = topic(2), name("tx"), name("g")
    with wire.Connection(broker.address) as connection:
        code, producer, epoch = wire.init_producer(connection, id)
        assert code == OK
        send = lambda epoch, sequence, partition=0: wire.produce(
            connection, made, wire.batch([b"v"], producer=(producer, epoch, sequence), attributes=wire.TRANSACTIONAL), partition=partition, transactional_id=id, version=12)
        assert send(epoch, 0) == (OK, 0)
        code, again, next_epoch = wire.end_txn(connection, id, (producer, epoch), version=5)
        assert (code, again, next_epoch) == (OK, producer, epoch + 1)
        wait(lambda: latest(made) == (2, 2), 10, "committed")
        # The same end again is its retry: it is told the same.
        assert wire.end_txn(connection, id, (producer, epoch), version=5) == (OK, producer, epoch + 1)
        # The next transaction has begun when the old request comes.
        assert wait(lambda: retried(send(next_epoch, 0)), 10, "the next transaction begins") == (OK, 2)
        if held == PRODUCE:
            code = send(epoch, 1)[0]
        elif held == ADD_PARTITIONS:
            code = wire.add_partitions(connection, id, (producer, epoch), made, [1])
        elif held == TXN_OFFSET_COMMIT:
            code = commit_offsets(connection, id, group, (producer, epoch), made, 5, version=5)
        else:
            code = wire.end_txn(connection, id, (producer, epoch), version=5)[0]
        assert code in FENCED, f"error code {code}"
        assert latest(made) == (2, 3) and latest(made, 1) == (0, 0)
        assert wire.end_txn(connection, id, (producer, next_epoch), commit=False, version=5)[0] == OK
        wait(lambda: latest(made) == (4, 4), 10, "aborted")
        assert committed_offset(connection, group, made) == (OK, -1)


def retried(answer):
    return None if answer[0] in wire.NOT_YET else answer


def commit_offsets(connection, id, group, producer, topic, offset, version=3):
    """The error code of TxnOffsetCommit for partition 0."""
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata="")
    topics = [TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])]

    def ask():
        answer = connection.call(TxnOffsetCommitRequest[version](
            transactional_id=id, group_id=group, producer_id=producer[0], producer_epoch=producer[1],
            generation_id=-1, member_id="", group_instance_id=None, topics=topics))
        return answer.topics[0].partitions[0].error_code

    return wait(lambda: [code] if (code := ask()) not in wire.NOT_YET else None, 10, "the coordinator answers")[0]


def committed_offset(connection, group, topic, stable=True):
    """(error code, offset) of partition 0."""
    topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]

    def ask():
        answer = connection.call(OffsetFetchRequest[7](group_id=group, topics=topics, require_stable=stable))
        return (answer.error_code, -1) if answer.error_code else (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].committed_offset)

    return wait(lambda: found if (found := ask())[0] not in wire.NOT_YET else None, 10, "the coordinator answers")


@pytest.mark.parametrize("version", [1, 2])
def test_r8_offsets_of_an_open_transaction_are_not_stable(version, broker, topic, name):
    made, id, group = topic(), name("tx"), name("g")
    with wire.Connection(broker.address) as connection:
        wire.coordinator(connection, group, 0)
        _, producer, epoch = wire.init_producer(connection, id)
        for offset, commit in ((5, True), (7, False), (9, True)):
            before = committed_offset(connection, group, made)
            assert before[0] == OK
            if version == 1:
                assert wait(lambda: [it] if (it := add_group(connection, id, group, (producer, epoch))) not in wire.NOT_YET else None, 10, "added") == [OK]
            assert commit_offsets(connection, id, group, (producer, epoch), made, offset, version=3 if version == 1 else 5) == OK
            assert committed_offset(connection, group, made)[0] == UNSTABLE
            assert committed_offset(connection, group, made, stable=False) == before
            code, _, next_epoch = wire.end_txn(connection, id, (producer, epoch), commit=commit, version=3 if version == 1 else 5)
            assert code == OK
            if version == 2:
                epoch = next_epoch
            expected = (OK, offset) if commit else before
            wait(lambda: committed_offset(connection, group, made)[0] == OK, 10, "the offsets are stable")
            assert committed_offset(connection, group, made) == expected


def add_group(connection, id, group, producer):
    return connection.call(AddOffsetsToTxnRequest[3](transactional_id=id, producer_id=producer[0], producer_epoch=producer[1], group_id=group)).error_code


def test_old_clients_transactions(broker, topic, latest, name):
    """Version 1 of the protocol: partitions are added first, and an end keeps the epoch."""
    made, id = topic(), name("tx")
    with wire.Connection(broker.address) as connection:
        _, producer, epoch = wire.init_producer(connection, id)
        batch = lambda sequence: wire.batch([b"v"], producer=(producer, epoch, sequence), attributes=wire.TRANSACTIONAL)
        # Not yet part of the transaction.
        code = wire.produce(connection, made, batch(0), transactional_id=id)[0]
        assert code == INVALID_TXN_STATE
        for turn in range(3):
            assert wait(lambda: [it] if (it := wire.add_partitions(connection, id, (producer, epoch), made)) not in wire.NOT_YET else None, 10, "added") == [OK]
            assert wire.produce(connection, made, batch(turn), transactional_id=id) == (OK, 2 * turn)
            assert wire.end_txn(connection, id, (producer, epoch), commit=turn != 1)[0] == OK
            wait(lambda: latest(made) == (2 * turn + 2,) * 2, 10, "it is over")
        found = wire.fetch(connection, made, isolation=1)
        assert [(it.producer_id, it.first_offset) for it in found.aborted_transactions] == [(producer, 2)]
        assert [it[0] for it in wire.batches(found.records)] == list(range(6))
        # Nothing is open: another commit has nothing to say; the retry of an abort is no commit.
        assert wire.end_txn(connection, id, (producer, epoch), commit=False)[0] in (OK, INVALID_TXN_STATE)
        assert wire.end_txn(connection, id, (producer, epoch + 1))[0] in FENCED
        assert wire.end_txn(connection, id, (producer + 1000, epoch))[0] == 49
        code, same, newer = wire.init_producer(connection, id)
        assert (code, same, newer) == (OK, producer, epoch + 1)
        assert wire.end_txn(connection, id, (producer, epoch))[0] in FENCED
        assert wire.produce(connection, made, batch(3), transactional_id=id)[0] in FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_old_clients_end_no_transaction_that_never_began(commit, broker, topic, name):
    """And whoever has missed the answer to an end gets it again."""
    made, id = topic(), name("tx")
    with wire.Connection(broker.address) as connection:
        wait(lambda: wire.coordinator(connection, id).error_code == OK, 20, "it has a coordinator")
        _, producer, epoch = wire.init_producer(connection, id)
        for version in range(5):
            assert wire.end_txn(connection, id, (producer, epoch), commit, version)[0] == INVALID_TXN_STATE
        assert wire.add_partitions(connection, id, (producer, epoch), made) == OK
        for _ in range(3):
            assert ended(connection, id, (producer, epoch), commit) == OK
        assert ended(connection, id, (producer, epoch), not commit) == INVALID_TXN_STATE


def test_a_group_without_a_name_is_added_and_its_offsets_are_refused(broker, topic, name):
    made, id = topic(), name("tx")
    with wire.Connection(broker.address) as connection:
        for key, kind in ((id, 1), ("", 0)):
            wait(lambda: wire.coordinator(connection, key, kind).error_code == OK, 20, "it has a coordinator")
        _, producer, epoch = wire.init_producer(connection, id)
        asked = AddOffsetsToTxnRequest[3](transactional_id=id, producer_id=producer, producer_epoch=epoch, group_id="")
        assert wait(lambda: connection.call(asked).error_code == OK, 20, "it is added")
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        place = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata="")
        found = connection.call(TxnOffsetCommitRequest[3](
            transactional_id=id, group_id="", producer_id=producer, producer_epoch=epoch, generation_id=-1, member_id="", group_instance_id=None,
            topics=[kind(name=made, partitions=[place])]))
        assert found.topics[0].partitions[0].error_code == INVALID_GROUP_ID
        assert ended(connection, id, (producer, epoch), True) == OK
        assert wire.init_producer(connection, id) == (OK, producer, epoch + 1)


def ended(connection, id, producer, commit):
    """The error code of an end, when the transaction before is over."""
    for _ in range(200):
        code = wire.end_txn(connection, id, producer, commit)[0]
        if code not in wire.NOT_YET:
            break
        time.sleep(0.05)
    return code


def test_k3_a_commit_right_at_the_timeout(kind, broker, topic, name):
    """K3: it is committed, or the producer is told that it can be aborted; an invalid state would end a client that did
    nothing wrong."""
    made, codes = topic(), []
    lock = threading.Lock()

    def race(number):
        with wire.Connection(broker.address) as connection:
            _, producer, epoch = wire.init_producer(connection, id := name("tx"), timeout_ms=1000)
            began = time.monotonic()
            found = wire.produce(
                connection, made, wire.batch([b"v"], producer=(producer, epoch, 0), attributes=wire.TRANSACTIONAL), transactional_id=id, version=12)
            assert found[0] == OK
            # Each at another moment around the end of its time; the broker looks every so often.
            time.sleep(max(0, began + 0.85 + 0.025 * number - time.monotonic()))
            code = 51
            while code in wire.NOT_YET:
                code = wire.end_txn(connection, id, (producer, epoch), version=5)[0]
            with lock:
                codes.append(code)

    threads = [threading.Thread(target=race, args=(i,)) for i in range(40)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    allowed = {OK, *FENCED, INVALID_TXN_STATE} if kind == "kafka" else {OK, ABORTABLE}
    assert len(codes) == 40 and set(codes) <= allowed, codes
    with wire.Connection(broker.address) as connection:
        wait(lambda: wire.list_offset(connection, made, isolation=1) == wire.list_offset(connection, made), 15, "nothing is open")


def test_k8_aborted_with_the_first_record_on_its_way(client, agent, open_clients, topic, transactional, latest):
    name = topic()
    producer = transactional(client, linger_ms=0)
    for turn in range(40):
        producer.begin()
        producer.agent.ask("send", id=producer.id, topic=name, records=[record(f"{turn}")], wait=False)
        producer.abort_txn()
    producer.begin()
    producer.must_send(name, [record("kept")])
    producer.commit_txn()
    wait(lambda: latest(name)[0] == latest(name)[1], 10, "nothing is open")
    reader = open_clients.consumer(agent("java"), assign=[[name, 0]], isolation=COMMITTED)
    assert values(reader, 1) == ["kept"] and reader.poll(1, 300) == []


def test_k8_aborts_on_the_wire(broker, topic, latest, name):
    """K8: the abort is on the wire right behind the first record, with no answer between."""
    made, id = topic(), name("tx")
    with wire.Connection(broker.address) as connection:
        _, producer, epoch = wire.init_producer(connection, id)
        for turn in range(100):
            batch = wire.batch([b"v"], producer=(producer, epoch, 0), attributes=wire.TRANSACTIONAL)
            request = wire.produce_request(made, batch, transactional_id=id, version=12)
            connection.send(request)
            connection.send(wire.EndTxnRequest[5](transactional_id=id, producer_id=producer, producer_epoch=epoch, committed=False))
            stored = connection.answer().responses[0].partition_responses[0].error_code
            ended = connection.answer()
            while ended.error_code in wire.NOT_YET:
                ended = connection.call(wire.EndTxnRequest[5](transactional_id=id, producer_id=producer, producer_epoch=epoch, committed=False))
            assert stored in (OK, *wire.NOT_YET), f"turn {turn}: {stored}"
            assert ended.error_code == OK, f"turn {turn}: {ended.error_code}"
            producer, epoch = ended.producer_id, ended.producer_epoch
    wait(lambda: latest(made)[0] == latest(made)[1], 10, "nothing is open")


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_transactions_survive(end, own_broker, own_agent, open_clients, name):
    """An open transaction is open after a restart and can be ended; aborted stays aborted (R7, R9)."""
    broker = own_broker()
    java, made, group = own_agent("java", broker), name(), name("g")
    java.ask("create_topic", topic=made, partitions=1)
    producers = {it: open_clients.producer(java, transactional_id=name(it)) for it in ("commit", "abort", "over")}
    for it in producers.values():
        it.init()
        it.begin()
    producers["over"].must_send(made, [record("aborted before")])
    producers["over"].abort_txn()
    end_now = lambda: java.ask("list_offset", topic=made, partition=0, spec="latest", isolation=COMMITTED)[0]
    wait(lambda: end_now() == 2, 10, "the first is over")
    producers["commit"].must_send(made, [record("committed after")])
    producers["abort"].must_send(made, [record("aborted after")])
    if end == "restart":
        broker.restart()
    else:
        broker.kill()
        broker.start()
    assert end_now() == 2
    reader = open_clients.consumer(own_agent("librdkafka", broker), topics=[made], group=group, isolation=COMMITTED)
    assert reader.poll(1, 1500) == []
    producers["commit"].must_send(made, [record("more after")])
    producers["commit"].commit_txn()
    producers["abort"].abort_txn()
    assert values(reader, 2) == ["committed after", "more after"]
    reader.commit()
    assert end_now() == 7 == java.ask("list_offset", topic=made, partition=0, spec="latest")[0]
    broker.restart()
    # R9: offsets that were committed behind an aborted tail are still good, and so is the end.
    assert end_now() == 7
    assert reader.poll(1, 1500) == []
    found = open_clients.consumer(own_agent("kafka-python", broker), assign=[[made, 0]], isolation=COMMITTED)
    assert values(found, 2) == ["committed after", "more after"]
