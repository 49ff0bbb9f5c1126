"""The protocol itself, for what no client says: any request in any version, frames and batches byte by byte.

Requests are built and answers read with the classes of kafka-python, which come from the protocol's own schemas."""

import gzip
import socket
import struct
import time

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

CODEC_BITS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TRANSACTIONAL = 1 << 4
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS: ask again.
NOT_YET = (14, 15, 16, 51)


def varint(value):
    """A zigzag varint, as records have it."""
    value = (value << 1) ^ (value >> 63)
    return unsigned(value & (1 << 64) - 1)


def unsigned(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(offset_delta, value, key=None, headers=(), time_delta=0):
    body = b"\0" + varint(time_delta) + varint(offset_delta) + sized(key) + sized(value)
    body += varint(len(headers)) + b"".join(sized(name) + sized(it) for name, it in headers)
    return varint(len(body)) + body


def compress(codec, data):
    if codec == "gzip":
        return gzip.compress(data, 6)
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == "lz4":
        return lz4.frame.compress(data, block_linked=False)
    return zstandard.compress(data) if codec == "zstd" else data


def batch(values, codec="none", producer=(-1, -1, -1), attributes=0, **lies):
    """A record batch v2. `lies` replaces fields of its header: length, magic, crc, count, last_offset_delta,
    base_offset, first_time, max_time, payload (the records as stored)."""
    records = b"".join(record(i, it) if isinstance(it, (bytes, type(None))) else it(i) for i, it in enumerate(values))
    payload = lies.get("payload", compress(codec, records))
    count = lies.get("count", len(values))
    # Of today: a broker forgets producers whose last record is old.
    first = lies.get("first_time", int(time.time() * 1000))
    after_crc = struct.pack(
        ">hiqqqhii", attributes | CODEC_BITS[codec], lies.get("last_offset_delta", len(values) - 1), first, lies.get("max_time", first), *producer, count) + payload
    crc = lies.get("crc", crc32c(after_crc))
    head = struct.pack(">iBI", -1, lies.get("magic", 2), crc)
    length = lies.get("length", len(head) + len(after_crc))
    return struct.pack(">qi", lies.get("base_offset", 0), length) + head + after_crc


class Connection:
    """One socket. Answers are taken in the order of the requests."""

    def __init__(self, address, timeout=20):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting, self.next = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def abort(self):
        """Closes with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def raw(self, data):
        self.socket.sendall(data)

    def frame(self, data):
        self.raw(struct.pack(">i", len(data)) + data)

    def send(self, request):
        self.next += 1
        request.with_header(correlation_id=self.next, client_id="wire")
        self.raw(request.encode(framed=True, header=True))
        if request.expect_response():
            self.waiting.append((self.next, RequestHeader.get_response_class(request.header)))

    def read(self, count):
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            if not part:
                raise ConnectionError(f"closed after {len(found)} of {count} bytes")
            found += part
        return found

    def read_frame(self):
        return self.read(struct.unpack(">i", self.read(4))[0])

    def answer(self):
        number, answers = self.waiting.pop(0)
        data = self.read_frame()
        found = answers.decode(data, header=True)
        assert found.header.correlation_id == number, "answers come in the order of the requests"
        return found

    def call(self, request):
        self.send(request)
        return self.answer()

    def is_closed(self, seconds):
        """Whether the other side closes within that time; what it says before is thrown away."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True


def produce_request(topic, data, partition=0, acks=-1, version=9, transactional_id=None, timeout_ms=10_000):
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=data)])]
    return ProduceRequest[version](transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produce(connection, topic, data, **more):
    """(error code, base offset) of one batch."""
    answer = connection.call(produce_request(topic, data, **more))
    found = answer.responses[0].partition_responses[0]
    return found.error_code, found.base_offset


def init_producer(connection, transactional_id=None, timeout_ms=60_000, version=4, producer=(-1, -1)):
    """(error code, producer id, epoch), when the coordinator has loaded and is done with what was before."""
    for _ in range(200):
        answer = connection.call(InitProducerIdRequest[version](
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=producer[0], producer_epoch=producer[1]))
        if answer.error_code not in NOT_YET:
            break
        time.sleep(0.05)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def add_partitions(connection, transactional_id, producer, topic, partitions=(0,), version=3):
    """The error code of the first partition."""
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
    answer = connection.call(AddPartitionsToTxnRequest[version](
        v3_and_below_transactional_id=transactional_id, v3_and_below_producer_id=producer[0], v3_and_below_producer_epoch=producer[1], v3_and_below_topics=topics))
    return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def end_txn(connection, transactional_id, producer, commit=True, version=3):
    """(error code, producer id, epoch); the last two are the next to use from version 5 on."""
    answer = connection.call(EndTxnRequest[version](transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit))
    return answer.error_code, answer.producer_id, answer.producer_epoch


def list_offset(connection, topic, timestamp=-1, partition=0, isolation=0, version=6):
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[
        ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=timestamp)])]
    found = connection.call(ListOffsetsRequest[version](replica_id=-1, isolation_level=isolation, topics=topics)).topics[0].partitions[0]
    return found.error_code, found.offset


def all_served(connection, topic, partitions):
    """Whether every partition of a new topic can be asked about."""
    kind = ListOffsetsRequest.ListOffsetsTopic
    asked = [kind.ListOffsetsPartition(partition_index=i, current_leader_epoch=-1, timestamp=-1) for i in range(partitions)]
    answer = connection.call(ListOffsetsRequest[6](replica_id=-1, isolation_level=0, topics=[kind(name=topic, partitions=asked)]))
    return all(it.error_code == 0 for it in answer.topics[0].partitions)


def fetch(connection, topic, offset=0, partition=0, isolation=0, version=11, max_wait_ms=0, max_bytes=50_000_000):
    """The answer for one partition: error_code, high_watermark, last_stable_offset, log_start_offset, aborted_transactions, records."""
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=offset, current_leader_epoch=-1, log_start_offset=-1, partition_max_bytes=max_bytes)])]
    answer = connection.call(FetchRequest[version](
        replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=isolation, session_id=0, session_epoch=-1, topics=topics))
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def batches(data):
    """(base offset, magic, attributes, producer id, epoch, first sequence, count) of each batch in what a fetch gave."""
    found, at = [], 0
    while data is not None and at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > len(data):
            break
        attributes = struct.unpack_from(">h", data, at + 21)[0]
        producer, epoch, sequence, count = struct.unpack_from(">qhii", data, at + 43)
        found.append((base, data[at + 16], attributes, producer, epoch, sequence, count))
        at += 12 + length
    return found


def api_versions(connection, version=3):
    answer = connection.call(ApiVersionsRequest[version](client_software_name="wire", client_software_version="1"))
    assert answer.error_code == 0
    return {it.api_key: (it.min_version, it.max_version) for it in answer.api_keys}


def coordinator(connection, key, kind=1, version=3):
    return connection.call(FindCoordinatorRequest[version](key=key, key_type=kind))


def metadata(connection, topics=None, create=False, version=9):
    asked = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=it) for it in topics]
    return connection.call(MetadataRequest[version](topics=asked, allow_auto_topic_creation=create))
