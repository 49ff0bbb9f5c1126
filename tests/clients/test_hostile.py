"""Bytes that no client sends: the node stays alive, its memory stays bounded, and other clients do not notice."""

import os
import random
import socket
import struct
import threading
import time
import zlib
from contextlib import ExitStack, suppress

import lz4.frame
import pytest
import zstandard
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.producer import ProduceRequest

import wire
from agents import record
from bystander import bystander
from waiting import wait

pytestmark = pytest.mark.hostile

OK, CORRUPT, TOO_LARGE, UNSUPPORTED_VERSION, UNSUPPORTED_FORMAT, INVALID_RECORD, UNKNOWN_SERVER_ERROR = 0, 2, 10, 35, 43, 87, -1
UNSUPPORTED_COMPRESSION = 76
# Records of a transaction in a request that names none.
NO_TRANSACTION = 53
MIB = 1 << 20


@pytest.fixture
def watched(kind, own_broker, own_agent, name):
    """A broker of its own with a bystander; `grown()` is its memory since, at most. Kafka's is that of its heap."""
    broker = own_broker()
    quiet = name("quiet")
    own_agent("java", broker).ask("create_topic", topic=quiet, partitions=1)
    with wire.Connection(broker.address) as connection:
        wait(lambda: wire.all_served(connection, quiet, 1), 10, "served")
    with bystander(broker, quiet):
        before = broker.rss_peak_bytes()
        broker.grown = lambda: 0 if kind == "kafka" else broker.rss_peak_bytes() - before
        yield broker
        broker.check()


def many(count, broker):
    stack = ExitStack()
    return stack, [stack.enter_context(wire.Connection(broker.address)) for _ in range(count)]


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "text": b"hello\n" * 1000,
    "ones": b"\xff" * 4096,
    "negative": struct.pack(">i", -1),
    "most negative": struct.pack(">i", -(2**31)),
    "largest": struct.pack(">i", 2**31 - 1) + b"x" * 100,
    "over the limit": struct.pack(">i", 200 * MIB) + b"x" * 100,
}


@pytest.mark.parametrize("kind_of_garbage", GARBAGE)
def test_garbage_is_closed_at_once(kind_of_garbage, broker, topic):
    with bystander(broker, topic()), wire.Connection(broker.address) as connection:
        connection.raw(GARBAGE[kind_of_garbage])
        assert connection.is_closed(10), "still open"


def test_frames_too_short_for_a_request(broker, topic):
    with bystander(broker, topic()):
        for length in range(0, 10):
            with wire.Connection(broker.address) as connection:
                connection.frame(b"\0" * length)
                # Eight zero bytes are the head of a Produce request without a client's name.
                assert connection.is_closed(10), f"{length} bytes"


def test_random_bytes(broker, topic):
    draw = random.Random(1)
    with bystander(broker, topic()):
        for _ in range(200):
            with wire.Connection(broker.address) as connection:
                data = draw.randbytes(draw.choice((1, 10, 100, 5000)))
                try:
                    connection.frame(data) if draw.random() < 0.7 else connection.raw(data)
                except OSError:
                    pass


def test_lengths_that_are_claimed_cost_nothing(kind, watched):
    """200 connections say that 90 MB come, and send a kilobyte."""
    stack, connections = many(4 if kind == "kafka" else 200, watched)
    with stack:
        for it in connections:
            it.raw(struct.pack(">i", 90 * MIB) + struct.pack(">hhih", 0, 9, 1, -1) + b"x" * 1000)
        with wire.Connection(watched.address) as connection:
            for _ in range(20):
                assert wire.api_versions(connection)
        assert watched.grown() < 64 * MIB, f"{watched.grown() >> 20} MiB"


HEADER = struct.Struct(">hhih")


def head(api, version, number=7):
    return HEADER.pack(api, version, number, 1) + b"h" + (b"\0" if is_flexible(api, version) else b"")


FLEXIBLE_FROM = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 18: 3, 19: 5, 20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3,
    27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 2, 42: 2, 44: 1, 17: 99, 47: 99,
}  # fmt: skip


def is_flexible(api, version):
    return version >= FLEXIBLE_FROM.get(api, 0)


def test_every_request_cut_short_and_full_of_lies(watched):
    """Each kind in its first and last version: no body, one that is cut, counts and lengths of two thousand million."""
    with wire.Connection(watched.address) as connection:
        kinds = wire.api_versions(connection)
    bodies = [b"", b"\0", b"\x7f\xff\xff\xff" * 8, b"\xff" * 40, b"\xff\xff\xff\xff\x07" * 10, b"\0" * 64, b"\x00\x01a" + b"\x7f\xff\xff\xff" * 4, b"\x02" * 50]
    draw = random.Random(3)
    bodies += [draw.randbytes(60) for _ in range(4)]
    # These are for brokers only, or make Kafka give up its own log.
    skipped = {4, 5, 6, 7, 52, 53, 54, 55, 56, 57, 58, 59, 62, 63, 64, 67, 70, 80, 81, 82}
    for api, versions in kinds.items():
        for version in () if api in skipped else set(versions):
            for body in bodies:
                with wire.Connection(watched.address, timeout=1) as connection:
                    connection.frame(head(api, version) + body)
        with wire.Connection(watched.address) as connection:
            assert wire.api_versions(connection), f"after api {api}"
    assert watched.grown() < 200 * MIB, f"{watched.grown() >> 20} MiB"


def test_requests_that_nobody_knows(broker, topic):
    with bystander(broker, topic()):
        for api, version in ((999, 0), (-1, 0), (32767, 3), (0, 99), (3, -1), (1, 300)):
            with wire.Connection(broker.address) as connection:
                connection.frame(head(api, version) + bytes(20))
                assert connection.is_closed(10), f"api {api} version {version}"


def test_an_unknown_version_of_the_question_for_versions(broker):
    """It is answered in version 0, so that a newer client learns what there is (KIP-511)."""
    with wire.Connection(broker.address) as connection:
        connection.frame(HEADER.pack(18, 99, 5, -1) + bytes(4))
        answer = connection.read_frame()
        number, code, count = struct.unpack_from(">ihi", answer)
        assert (number, code) == (5, UNSUPPORTED_VERSION) and count >= 1
        found = {struct.unpack_from(">hhh", answer, 10 + 6 * i)[0]: struct.unpack_from(">hhh", answer, 10 + 6 * i)[1:] for i in range(count)}
        assert 18 in found and found[18][1] >= 3
        # And the connection can be used.
        assert wire.api_versions(connection)


def message_set(magic, value=b"old"):
    """One message of the formats before record batches."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1_700_000_000_000) if magic else b"") + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", [3, 7, 9])
def test_message_formats_before_version_2_are_refused(magic, version, broker, topic):
    name = topic()
    with wire.Connection(broker.address) as connection:
        code, _ = wire.produce(connection, name, message_set(magic), version=version)
        assert code in (CORRUPT, UNSUPPORTED_FORMAT, INVALID_RECORD), f"error code {code}"
        assert wire.list_offset(connection, name) == (OK, 0)
        assert wire.produce(connection, name, wire.batch([b"new"])) == (OK, 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_requests_of_old_producers_are_refused(version, broker, topic):
    name = topic()
    with wire.Connection(broker.address) as connection:
        data = message_set(min(version, 1))
        connection.frame(HEADER.pack(0, version, 1, -1) + struct.pack(">hii", -1, 1000, 1) + struct.pack(">h", len(name)) + name.encode() + struct.pack(">iii", 1, 0, len(data)) + data)
        try:
            # Told an error, by a broker that knows how an answer of that age looks; else closed.
            answer = connection.read_frame()
            assert struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name) + 4 + 4)[0] in (UNSUPPORTED_VERSION, UNSUPPORTED_FORMAT, INVALID_RECORD)
        except (ConnectionError, OSError):
            pass
    with wire.Connection(broker.address) as connection:
        assert wire.list_offset(connection, name) == (OK, 0)


def lying_batches():
    good = [b"one", b"two", b"three"]
    flip = wire.batch(good)
    yield "crc", wire.batch(good, crc=12345)
    yield "a flipped bit", flip[:-2] + bytes([flip[-2] ^ 4]) + flip[-1:]
    yield "count too high", wire.batch(good, count=4)
    yield "count too low", wire.batch(good, count=2)
    yield "count zero", wire.batch(good, count=0)
    yield "count below zero", wire.batch(good, count=-1)
    yield "count of two thousand million", wire.batch(good, count=2**31 - 1, last_offset_delta=2**31 - 2)
    yield "last offset too high", wire.batch(good, last_offset_delta=7)
    yield "last offset below zero", wire.batch(good, last_offset_delta=-3)
    yield "length too long", wire.batch(good, length=5000)
    yield "length too short", wire.batch(good, length=50)
    yield "length below zero", wire.batch(good, length=-1)
    yield "length zero", wire.batch(good, length=0)
    yield "magic 3", wire.batch(good, magic=3)
    yield "magic 127", wire.batch(good, magic=127)
    yield "no records", wire.batch([])
    yield "nothing", b""
    yield "half a head", wire.batch(good)[:30]
    yield "cut", wire.batch(good)[:-3]
    yield "two batches", wire.batch(good) + wire.batch(good)
    yield "bytes behind it", wire.batch(good) + b"more"
    yield "marked as control", wire.batch(good, attributes=1 << 5)
    yield "codec 5", wire.batch(good, attributes=5)
    yield "codec 7", wire.batch(good, attributes=7)
    yield "a record longer than the batch", wire.batch(good, payload=wire.varint(100_000) + b"abc")
    yield "a record's length below zero", wire.batch(good, payload=wire.varint(-5) + b"abc")
    yield "an endless varint", wire.batch(good, payload=b"\xff" * 100)
    yield "a header count of two thousand million", wire.batch([lambda i: b"\x14\0\0\0\1\1" + wire.varint(2**31 - 1)])
    yield "a transaction without a producer", wire.batch(good, attributes=wire.TRANSACTIONAL)
    yield "a producer without an epoch", wire.batch(good, producer=(5, -1, 0))
    yield "a sequence below zero", wire.batch(good, producer=(5, 0, -2))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        yield f"{codec} garbage", wire.batch(good, codec, payload=os.urandom(200))
        yield f"{codec} nothing", wire.batch(good, codec, payload=b"")
        yield f"{codec} count too high", wire.batch(good, codec, count=4, last_offset_delta=3)
        whole = wire.compress(codec, b"".join(wire.record(i, it * 50) for i, it in enumerate(good)))
        yield f"{codec} cut", wire.batch(good, codec, payload=whole[: len(whole) // 2])


# What Kafka takes though it is not right: it does not look into everything.
TAKEN_BY_KAFKA = {"bytes behind it", "a producer without an epoch"}


@pytest.mark.parametrize("lie, data", [pytest.param(*it, id=it[0]) for it in lying_batches()])
def test_batches_that_lie(lie, data, kind, broker, topic):
    name = topic()
    with wire.Connection(broker.address) as connection:
        try:
            code, _ = wire.produce(connection, name, data)
        except ConnectionError:
            code = None
    with wire.Connection(broker.address) as connection:
        if kind == "kafka" and lie in TAKEN_BY_KAFKA:
            return
        allowed = (CORRUPT, TOO_LARGE, INVALID_RECORD, UNSUPPORTED_FORMAT, UNSUPPORTED_COMPRESSION, NO_TRANSACTION, None) + ((UNKNOWN_SERVER_ERROR,) if kind == "kafka" else ())
        assert code in allowed, f"error code {code}"
        assert wire.list_offset(connection, name) == (OK, 0), "something was stored"
        assert wire.produce(connection, name, wire.batch([b"good"])) == (OK, 0)


def zeros_in(codec, count):
    """`count` zero bytes as one record's value, compressed without ever being whole."""
    body = b"\0" + wire.varint(0) + wire.varint(0) + wire.varint(-1) + wire.varint(count)
    begin, end, part = wire.varint(len(body) + count + 1) + body, b"\0", bytes(1 << 20)
    parts = [begin, *[part] * (count >> 20), end]
    if codec == "gzip":
        packer = zlib.compressobj(9, wbits=31)
        return b"".join(packer.compress(it) for it in parts) + packer.flush()
    if codec == "zstd":
        packer = zstandard.ZstdCompressor().compressobj()
        return b"".join(packer.compress(it) for it in parts) + packer.flush()
    if codec == "lz4":
        packer = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False)
        return packer.begin() + b"".join(packer.compress(it) for it in parts) + packer.flush()
    return wire.compress("snappy", b"".join(parts))


@pytest.mark.parametrize("codec, size", [("gzip", 900 * MIB), ("zstd", 2000 * MIB), ("lz4", 240 * MIB), ("snappy", 18 * MIB)])
def test_compressed_bombs(codec, size, kind, watched, own_agent, name):
    bomb = wire.batch([b""], codec, payload=zeros_in(codec, size))
    assert len(bomb) < MIB
    made, codes = name(), []
    own_agent("java", watched).ask("create_topic", topic=made, partitions=1)

    def throw():
        with wire.Connection(watched.address, timeout=60) as connection:
            began = time.monotonic()
            codes.append((wire.produce(connection, made, bomb, timeout_ms=60_000)[0], time.monotonic() - began))

    threads = [threading.Thread(target=throw) for _ in range(1 if kind == "kafka" else 4)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert len(codes) == len(threads) and all(it in (OK, CORRUPT, TOO_LARGE, INVALID_RECORD) for it, _ in codes), codes
    assert max(seconds for _, seconds in codes) < 30, codes
    if size > 256 * MIB and kind == "tidemill":
        assert all(it != OK for it, _ in codes), codes
    assert watched.grown() < 400 * MIB, f"{watched.grown() >> 20} MiB"


def test_idle_connections(kind, watched):
    files, before = watched.open_files(), watched.rss_bytes()
    stack, connections = many(2000, watched)
    with stack:
        with wire.Connection(watched.address) as connection:
            began = time.monotonic()
            assert wire.api_versions(connection)
            assert time.monotonic() - began < 2
        # Each has said something once.
        for it in connections[::10]:
            assert wire.api_versions(it)
        if kind == "tidemill":
            assert watched.rss_bytes() - before < 2000 * 32 * 1024, f"{(watched.rss_bytes() - before) / 2000:.0f} bytes a connection"
    wait(lambda: watched.open_files() <= files + 10, 20, "the files of closed connections are closed")


def test_connections_that_come_and_go(watched):
    files = watched.open_files()
    for i in range(1500):
        connection = wire.Connection(watched.address)
        if i % 3 == 0:
            connection.raw(b"\0\0")
        elif i % 3 == 1:
            connection.frame(head(18, 0))
        connection.abort() if i % 2 else connection.close()
    wait(lambda: watched.open_files() <= files + 10, 20, "their files are closed")


def test_one_byte_now_and_then(watched):
    """300 connections that never finish a request."""
    stack, connections = many(300, watched)
    frame = struct.pack(">i", 5000) + head(0, 9) + b"x" * 5000
    with stack:
        for i in range(25):
            for it in connections:
                it.raw(frame[i : i + 1])
            time.sleep(0.1)
        assert watched.grown() < 100 * MIB, f"{watched.grown() >> 20} MiB"


def test_answers_that_nobody_takes(kind, watched, own_agent, name, open_clients):
    """Readers that ask for megabytes and take none: what they asked for is not kept for them."""
    made = name()
    own_agent("java", watched).ask("create_topic", topic=made, partitions=1)
    open_clients.producer(own_agent("librdkafka", watched), codec="none").must_send(made, [record("x" * 500_000)] * 40)
    stack, connections = many(10 if kind == "kafka" else 30, watched)
    with stack:
        for it in connections:
            it.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            it.socket.settimeout(0.3)
            try:
                for _ in range(50):
                    it.send(wire.FetchRequest[11](
                        replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=50_000_000, isolation_level=0, session_id=0, session_epoch=-1,
                        topics=[wire.FetchRequest.FetchTopic(topic=made, partitions=[wire.FetchRequest.FetchTopic.FetchPartition(
                            partition=0, fetch_offset=0, current_leader_epoch=-1, log_start_offset=-1, partition_max_bytes=50_000_000)])]))
            except TimeoutError:
                pass
        with wire.Connection(watched.address) as connection:
            for _ in range(20):
                assert wire.api_versions(connection)
        assert watched.grown() < 400 * MIB, f"{watched.grown() >> 20} MiB"


def test_many_requests_without_taking_an_answer_between(broker):
    with wire.Connection(broker.address, timeout=60) as connection:
        sender = threading.Thread(target=lambda: [connection.send(wire.MetadataRequest[9](topics=[], allow_auto_topic_creation=False)) for _ in range(3000)])
        sender.start()
        wait(lambda: connection.waiting, 10, "the first is sent")
        got = 0
        while got < 3000:
            wait(lambda: connection.waiting, 30, "more are sent")
            assert connection.answer().cluster_id
            got += 1
        sender.join()


def test_requests_with_random_bytes_flipped(kind, broker, topic):
    """Whatever is changed in a good request: an answer, or a closed connection; never UNKNOWN_SERVER_ERROR to a producer."""
    name, quiet, draw = topic(), topic(), random.Random(11)
    request = wire.produce_request(name, wire.batch([b"value"] * 5, "lz4"))
    request.with_header(correlation_id=1, client_id="wire")
    frame = bytearray(request.encode(framed=True, header=True))
    unknown = 0
    with bystander(broker, quiet):
        for _ in range(400):
            changed = bytearray(frame)
            for _ in range(draw.randint(1, 4)):
                # Not its length, nor what kind of request it is.
                changed[draw.randrange(12, len(changed))] = draw.randrange(256)
            with wire.Connection(broker.address, timeout=3) as connection:
                connection.raw(bytes(changed))
                try:
                    answer = connection.read_frame()
                except (ConnectionError, OSError):
                    continue
                # correlation, tags, topics, name, partitions, index, error: when they are where they should be.
                if len(answer) > 12 + len(name) and answer[6 : 7 + len(name)] == bytes([len(name) + 1]) + name.encode():
                    unknown += struct.unpack_from(">h", answer, 12 + len(name))[0] == UNKNOWN_SERVER_ERROR
    assert kind == "kafka" or not unknown


def test_huge_strings_and_names_in_the_log(broker, topic):
    """A client's name can be long and hold line ends; none of it may look like a line of our log."""
    with bystander(broker, topic()):
        forged = "x\n2026-01-01T00:00:00Z ERROR forged by a client\r\nforged again"
        for client in (forged, "\0" * 100, "\x1b[31mred", "n" * 32_000):
            with wire.Connection(broker.address) as connection:
                text = client.encode()
                connection.frame(HEADER.pack(3, 1, 1, len(text)) + text + b"\x7f\xff\xff\xff")
                connection.is_closed(5)
    lines = broker.log.read_text(errors="replace").splitlines()
    assert not [it for it in lines if it.startswith(("2026-01-01T00:00:00Z ERROR forged", "forged again"))]
    assert "\x1b[31mred" not in broker.log.read_text(errors="replace")


def test_too_many_topics_in_one_request(watched):
    """A hundred thousand partitions that are not there, in one request of each kind."""
    with wire.Connection(watched.address, timeout=60) as connection:
        answer = wire.metadata(connection, [f"no-{i}" for i in range(30_000)])
        assert len(answer.topics) == 30_000
        data = wire.batch([b"x"])
        partitions = [ProduceRequest.TopicProduceData.PartitionProduceData(index=i, records=data) for i in range(10_000)]
        answer = connection.call(ProduceRequest[9](
            transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(name="not-there", partition_data=partitions)]))
        assert len(answer.responses[0].partition_responses) == 10_000
    assert watched.grown() < 200 * MIB, f"{watched.grown() >> 20} MiB"


def test_a_partition_that_is_named_twice_has_no_offset(broker, topic):
    """It may be asked for two times, of which neither answer would be the one that is meant."""
    kind = ListOffsetsRequest.ListOffsetsTopic
    name = topic()
    asked = [kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=it) for it in (-1, -2)]
    with wire.Connection(broker.address) as connection:
        answer = connection.call(ListOffsetsRequest[6](replica_id=-1, isolation_level=0, topics=[kind(name=name, partitions=asked)]))
    assert {it.error_code for it in answer.topics[0].partitions} == {42}, "INVALID_REQUEST"


@pytest.mark.parametrize("kind_of_request, version", [("FindCoordinator", 4), ("DescribeGroups", 5), ("DeleteGroups", 2), ("DescribeTransactions", 0)])
def test_too_many_names_in_one_request(kind_of_request, version, kind, watched):
    """A few bytes each, or one, and hundreds of bytes once they are read and answered."""
    key = {"FindCoordinator": 10, "DescribeGroups": 15, "DeleteGroups": 42, "DescribeTransactions": 65}[kind_of_request]

    def frame(names):
        head = HEADER.pack(key, version, 1, 0) + b"\0"
        names = wire.unsigned(len(names) + 1) + b"".join(names)
        # The kind of keys stands before them, and whether operations are wanted behind the groups.
        return head + (b"\0" if key == 10 else b"") + names + (b"\0" if key == 15 else b"") + b"\0"

    with wire.Connection(watched.address, timeout=60) as connection:
        connection.frame(frame([b"\6%05d" % number for number in range(20_000)]))
        assert len(connection.read_frame()) > 20_000
        # A name that is there again is answered once; Kafka does that for groups that are deleted.
        connection.frame(frame([b"\1"] * 20_000))
        assert (len(connection.read_frame()) < 100) == (kind == "tidemill" or key == 42)
    if kind == "tidemill":
        for _ in range(4):
            with wire.Connection(watched.address, timeout=60) as connection:
                with suppress(ConnectionError):
                    connection.frame(frame([b"\1"] * (15 * MIB)))
                assert connection.is_closed(20)
    assert watched.grown() < 200 * MIB, f"{watched.grown() >> 20} MiB"


def test_row_20_a_flipped_byte_is_told_and_not_served(own_broker, kind, tmp_path):
    """A byte of a file is changed beside the node, which had written it a moment before, and read it."""
    if kind == "kafka":
        return  # It serves what stands in its files.
    broker = own_broker(memory="0B", segment_bytes="1MiB")
    with wire.Connection(broker.address) as connection:
        wire.metadata(connection, ["t"], create=True)
        wait(lambda: wire.all_served(connection, "t", 1), 20, "the topic is there")
        for letter in b"abcdefgh":
            assert wire.produce(connection, "t", wire.batch([bytes([letter]) * 60_000])) == (OK, letter - ord("a"))
        assert [it[0] for it in wire.batches(wire.fetch(connection, "t").records)] == list(range(8))
        for letter, offset in [(b"c", 2), (b"g", 6)]:
            [file] = [it for it in tmp_path.rglob("*.seg") if letter * 60_000 in it.read_bytes()]
            with open(file, "r+b") as it:
                it.seek(file.read_bytes().index(letter * 60_000) + 30_000)
                it.write(b"!")
        # It is found on the way out; whoever asks then is told.
        with pytest.raises(ConnectionError):
            wire.fetch(connection, "t")
    with wire.Connection(broker.address) as connection:
        served = wire.fetch(connection, "t").records
        assert [it[0] for it in wire.batches(served)] == [0, 1] and b"c!c" not in served
        assert wire.fetch(connection, "t", 2).error_code == CORRUPT
        served = wire.fetch(connection, "t", 3).records
        assert [it[0] for it in wire.batches(served)] == [3, 4, 5] and b"g!g" not in served
        assert wire.fetch(connection, "t", 6).error_code == CORRUPT
        assert [it[0] for it in wire.batches(wire.fetch(connection, "t", 7).records)] == [7]
    assert str(file) in broker.last_lines(200), "it is told where the damage is"
