"""Records: what one client writes all others read, unchanged, in order, at the offsets and times that were said."""

import json
import subprocess
import threading
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import wire
from agents import CLIENTS, Failed, record

pytestmark = pytest.mark.records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Milliseconds since 1970 of the first record that is written with a time.
T0 = 1_700_000_000_000
OUT_OF_RANGE, TOO_LARGE, UNKNOWN_TOPIC = 1, 10, 3


def some_records(count, partition=0, size=40):
    """Keys, no keys, tombstones, empty values, headers twice under a name, bytes of every value."""
    every = "".join(map(chr, range(256)))
    for i in range(count):
        value = None if i % 7 == 3 else "" if i % 7 == 4 else f"{i}:{every}" if i % 7 == 5 else f"{i}:" + "v" * size
        headers = (("h", f"{i}"), ("h", "again"), ("empty", ""), ("bytes", every)) if i % 3 == 0 else ()
        # A record with neither key nor value is fine, and some clients cannot send it.
        yield record(value, key=None if i % 5 == 1 and value is not None else f"k{i}", partition=partition, timestamp=T0 + i, headers=headers)


def content(it):
    return it["key"], it["value"], tuple(tuple(h) for h in it["headers"])


@pytest.mark.parametrize("writer", CLIENTS)
def test_what_one_client_writes_all_read(writer, agent, open_clients, topic):
    name = topic(len(CODECS))
    written = {}
    for partition, codec in enumerate(CODECS):
        producer = open_clients.producer(agent(writer), codec=codec, linger_ms=20)
        records = list(some_records(150, partition))
        stored = producer.must_send(name, records)
        assert [it[:2] for it in stored] == [(partition, i) for i in range(150)], f"places of {codec}"
        written[partition] = records
    for reader in CLIENTS:
        consumer = open_clients.consumer(agent(reader), assign=[[name, i] for i in range(len(CODECS))])
        found = {i: [] for i in range(len(CODECS))}
        for it in consumer.read(150 * len(CODECS)):
            found[it.partition].append(it)
        for partition, records in written.items():
            assert [it.offset for it in found[partition]] == list(range(150)), f"offsets of {CODECS[partition]} by {reader}"
            for ours, sent in zip(found[partition], records):
                assert (ours.key, ours.value, ours.headers) == content(sent), f"{CODECS[partition]} by {reader} at {ours.offset}"
                assert ours.timestamp == sent["timestamp"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(acks, client, agent, open_clients, topic):
    name = topic()
    producer = open_clients.producer(agent(client), acks=acks, idempotent=False)
    stored = producer.must_send(name, [record(f"{i}") for i in range(100)])
    if acks != "0":
        assert [it[1] for it in stored] == list(range(100))
    found = open_clients.consumer(agent(client), assign=[[name, 0]]).read(100)
    assert [(it.offset, it.value) for it in found] == [(i, f"{i}") for i in range(100)]


def test_a_topic_is_made_by_writing_to_it(client, agent, open_clients, name):
    made = name("auto")
    producer = open_clients.producer(agent(client))
    assert [it[:2] for it in producer.must_send(made, [record("first"), record("second")])] == [(0, 0), (0, 1)]
    described = agent("java").ask("describe_topic", topic=made)
    assert len(described["partitions"]) == 1


def test_order_holds_in_every_partition_under_load(client, agent, open_clients, topic):
    name = topic(7)
    producer = open_clients.producer(agent(client), codec="lz4", linger_ms=2)
    producer.must_send(name, [record(f"{i}", key=f"k{i % 13}", partition=i % 7) for i in range(20_000)])
    found = open_clients.consumer(agent(client), assign=[[name, i] for i in range(7)]).read(20_000)
    for partition in range(7):
        ours = [it for it in found if it.partition == partition]
        assert [int(it.value) for it in ours] == list(range(partition, 20_000, 7))
        assert [it.offset for it in ours] == list(range(len(ours)))


def test_many_partitions_in_one_fetch(client, agent, open_clients, topic):
    name = topic(200)
    producer = open_clients.producer(agent("librdkafka"), linger_ms=5)
    producer.must_send(name, [record(f"{i}", partition=i % 200) for i in range(2000)])
    found = open_clients.consumer(agent(client), assign=[[name, i] for i in range(200)]).read(2000, seconds=30)
    assert sorted((it.partition, it.offset, int(it.value)) for it in found) == [(p, n, p + 200 * n) for p in range(200) for n in range(10)]


def test_a_waiting_fetch_is_answered_when_a_record_comes(client, agent, own_agent, broker, open_clients, topic):
    """The reader would wait for ten seconds; on a quiet topic a record must not wait that long."""
    name = topic()
    reading = own_agent(client, broker)
    consumer = open_clients.consumer(reading, assign=[[name, 0]], fetch_wait_ms=10_000)
    producer = open_clients.producer(agent("librdkafka"), linger_ms=0)
    assert consumer.poll(1, 700) == []
    delays = []
    for i in range(10):
        reading.send("poll", id=consumer.id, count=1, ms=20_000)
        # Another moment of the wait each time.
        time.sleep(0.05 * i)
        sent = time.monotonic()
        producer.must_send(name, [record(f"{i}")])
        assert [it[5] for it in reading.answer()] == [f"{i}"]
        delays.append(time.monotonic() - sent)
    # Far from both: an answer takes milliseconds, and half the wait on average if a record does not end it.
    assert sorted(delays)[5] < 2, f"median of {delays}"


@pytest.mark.parametrize("limit", ["topic", "broker"])
def test_messages_at_and_over_the_limit(limit, client, agent, open_clients, topic):
    """max.message.bytes is of a batch: its header is 61 bytes, and a record has a few more."""
    size = 200_000 if limit == "topic" else 1_048_588
    name = topic(**({"max_message_bytes": size} if limit == "topic" else {}))
    # Random bytes, so that no client can make them smaller.
    producer = open_clients.producer(agent(client), codec="none")
    assert producer.must_send(name, [record("x" * (size - 100))])[0][1] == 0
    (refused,) = producer.send(name, [record("y" * (size + 1))])
    assert isinstance(refused, Failed) and refused.code == TOO_LARGE, f"{refused}"
    # The producer and its partition are not hurt.
    assert open_clients.producer(agent(client), codec="none").must_send(name, [record("after")])[0][1] == 1
    found = open_clients.consumer(agent(client), assign=[[name, 0]]).read(2)
    assert [len(it.value) for it in found] == [size - 100, 5]


def test_a_record_larger_than_the_fetch_is_still_read(agent, open_clients, topic):
    """A fetch must make progress, whatever limit the reader names (KIP-74)."""
    name = topic(2)
    producer = open_clients.producer(agent("librdkafka"))
    producer.must_send(name, [record("x" * 600_000, partition=i % 2) for i in range(6)])
    small = {"fetch.message.max.bytes": 1000, "max.partition.fetch.bytes": 1000, "fetch.max.bytes": 1_000_000, "message.max.bytes": 1_000_000}
    found = open_clients.consumer(agent("librdkafka"), assign=[[name, 0], [name, 1]], librdkafka=small).read(6)
    assert sorted((it.partition, it.offset) for it in found) == [(p, o) for p in range(2) for o in range(3)]


def test_time_of_append(agent, open_clients, topic):
    name = topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    stored = open_clients.producer(agent("java")).must_send(name, [record("a", timestamp=T0), record("b", timestamp=T0)])
    after = int(time.time() * 1000)
    for reader in CLIENTS:
        found = open_clients.consumer(agent(reader), assign=[[name, 0]]).read(2)
        assert all(before <= it.timestamp <= after for it in found), f"{reader}: {found}"
    assert all(before <= it[2] <= after for it in stored)


def test_offsets_by_time(agent, open_clients, topic):
    java, name = agent("java"), topic()
    at = lambda spec, partition=0: java.ask("list_offset", topic=name, partition=partition, spec=str(spec))
    assert at("earliest")[0] == at("latest")[0] == 0
    assert at(T0)[0] == -1
    # One batch each, so that the time of a batch is that of its record; 5 comes late.
    producer = open_clients.producer(agent("librdkafka"), linger_ms=0)
    for i in (0, 10, 20, 30, 5, 40):
        producer.must_send(name, [record(f"{i}", timestamp=T0 + i * 1000)])
    assert at("earliest")[0] == 0
    assert at("latest")[0] == 6
    assert at(T0 - 1) == [0, T0]
    assert at(T0 + 9_001) == [1, T0 + 10_000]
    assert at(T0 + 10_000) == [1, T0 + 10_000]
    assert at(T0 + 30_001) == [5, T0 + 40_000]
    assert at(T0 + 40_001)[0] == -1
    assert at("max_timestamp") == [5, T0 + 40_000]
    # Inside a batch of several records.
    open_clients.producer(agent("java"), linger_ms=50).must_send(name, [record(f"{i}", timestamp=T0 + i * 1000) for i in range(100, 150)])
    assert at(T0 + 120_000) == [26, T0 + 120_000]
    assert at("max_timestamp") == [55, T0 + 149_000]


def test_records_before_an_offset_are_deleted(agent, open_clients, topic):
    java, name = agent("java"), topic(2)
    open_clients.producer(agent("franz-go")).must_send(name, [record(f"{i}", partition=i % 2) for i in range(100)])
    assert java.ask("delete_records", topic=name, partition=0, offset=20) == 20
    assert java.ask("list_offset", topic=name, partition=0, spec="earliest")[0] == 20
    assert java.ask("list_offset", topic=name, partition=1, spec="earliest")[0] == 0
    # Not back, and not beyond the end.
    assert java.ask("delete_records", topic=name, partition=0, offset=10) == 20
    with pytest.raises(Failed) as refused:
        java.ask("delete_records", topic=name, partition=0, offset=51)
    assert refused.value.code == OUT_OF_RANGE
    for reader in CLIENTS:
        found = open_clients.consumer(agent(reader), assign=[[name, 0]]).read(30)
        assert [it.offset for it in found] == list(range(20, 50)), reader
    # All of them: -1 is the end.
    assert java.ask("delete_records", topic=name, partition=0, offset=-1) == 50
    assert java.ask("list_offset", topic=name, partition=0, spec="latest")[0] == 50
    assert open_clients.producer(agent("java")).must_send(name, [record("next")])[0][1] == 50


def test_a_consumer_beyond_the_end_starts_anew(agent, open_clients, topic, name):
    """auto.offset.reset works from OFFSET_OUT_OF_RANGE: the group's offset points behind what was deleted."""
    java, source, group = agent("java"), topic(), name("g")
    open_clients.producer(agent("librdkafka")).must_send(source, [record(f"{i}") for i in range(10)])
    java.ask("alter_group_offsets", name=group, topic=source, partition=0, offset=1000)
    for client in CLIENTS:
        consumer = open_clients.consumer(agent(client), topics=[source], group=group)
        assert [it.offset for it in consumer.read(10)] == list(range(10)), client
        open_clients.close(consumer)


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_writes_and_reads(codec, broker, agent, open_clients, topic):
    """Debian's kcat, with its older librdkafka."""
    name = topic(2)
    # Each value compresses by itself: kcat sends what has come after the linger, be it one record.
    values = [f"value {i} " * 40 for i in range(500)]
    text = "".join(f"k{i}:{value}\n" for i, value in enumerate(values))
    kcat = ["kcat", "-b", broker.address, "-t", name]
    line = [*kcat, "-P", "-p", "1", "-K:", "-z", codec, "-H", "h=1", "-X", "acks=all", "-X", "linger.ms=5"]
    if codec == "none":
        del line[line.index("-z") : line.index("-z") + 2]
    subprocess.run(line, input=text, text=True, check=True, timeout=30)
    with wire.Connection(broker.address) as connection:
        stored = wire.batches(wire.fetch(connection, name, partition=1).records)
    # Uncompressed is what it falls back to, silently, if it thinks that the broker does not know the codec
    # (and for a batch that is no smaller compressed, of which there is none here).
    assert stored and {attributes & 7 for _, _, attributes, *_ in stored} == {wire.CODEC_BITS[codec]}
    for reader in CLIENTS:
        found = open_clients.consumer(agent(reader), assign=[[name, 1]]).read(500)
        assert [(it.key, it.value, it.headers) for it in found] == [(f"k{i}", value, (("h", "1"),)) for i, value in enumerate(values)], reader
    open_clients.producer(agent("java"), codec=codec).must_send(name, [record(f"java {i}", key=f"{i}", partition=0) for i in range(50)])
    read = subprocess.run([*kcat, "-C", "-o", "beginning", "-e", "-J"], capture_output=True, text=True, check=True, timeout=30)
    found = [json.loads(it) for it in read.stdout.splitlines()]
    assert sorted((it["partition"], it["offset"]) for it in found) == [(0, i) for i in range(50)] + [(1, i) for i in range(500)]
    assert {it["payload"] for it in found if it["partition"] == 0} == {f"java {i}" for i in range(50)}
    metadata = json.loads(subprocess.run([*kcat, "-L", "-J"], capture_output=True, text=True, check=True, timeout=30).stdout)
    assert [len(it["partitions"]) for it in metadata["topics"]] == [2]
    by_time = subprocess.run(["kcat", "-b", broker.address, "-Q", "-t", f"{name}:0:-1", "-t", f"{name}:1:-2"], capture_output=True, text=True, check=True, timeout=30)
    assert f"{name} [0] offset 50" in by_time.stdout and f"{name} [1] offset 0" in by_time.stdout


def test_readers_and_writers_at_once(agent, own_agent, broker, open_clients, topic):
    """Each client writes while each client reads: every reader sees the same records at the same offsets."""
    name = topic()
    count, writing = 1500, [own_agent(it, broker) for it in CLIENTS]
    readers = [open_clients.consumer(own_agent(it, broker), assign=[[name, 0]]) for it in CLIENTS]
    producers = [open_clients.producer(it, linger_ms=1) for it in writing]
    failures = []

    def write(number):
        try:
            for first in range(0, count, 100):
                producers[number].must_send(name, [record(f"{number}:{first + i}") for i in range(100)])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(len(writing))]
    for it in threads:
        it.start()
    found = [it.read(count * len(CLIENTS), 60) for it in readers]
    for it in threads:
        it.join()
    assert not failures, failures
    assert [it.offset for it in found[0]] == list(range(count * len(CLIENTS)))
    for number in range(len(writing)):
        ours = [int(it.value.split(":")[1]) for it in found[0] if it.value.startswith(f"{number}:")]
        assert ours == list(range(count)), f"order of {CLIENTS[number]}"
    for client, other in zip(CLIENTS, found):
        assert [(it.offset, it.value) for it in other] == [(it.offset, it.value) for it in found[0]], client


def test_records_without_a_key_are_told_from_those_that_came_with_them(broker, name):
    """KIP-467: of a batch for a compacted topic only the records without a key are invalid."""
    made = name()
    # The client is kept until its answer is there: without it the request ends with it.
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(made, 1, 1, config={"cleanup.policy": "compact"})])[made].result(30)
    codes = {}
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "linger.ms": 1000})
    for i, key in enumerate([b"a", None, b"b", None]):
        producer.produce(made, f"{i}".encode(), key, on_delivery=lambda error, message: codes.update({message.value(): error.code()}))
    producer.flush(30)
    wrong, other = confluent_kafka.KafkaError.INVALID_RECORD, confluent_kafka.KafkaError._INVALID_DIFFERENT_RECORD
    assert [codes[f"{i}".encode()] for i in range(4)] == [other, wrong, other, wrong]
