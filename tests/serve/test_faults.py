"""A disk that fails under a running node. System calls fail by `strace`, for this process alone."""

import contextlib
import shutil
import signal
import subprocess
import threading

import pytest
from confluent_kafka import Consumer, TopicPartition

from waiting import wait


@contextlib.contextmanager
def failing(node, calls, error):
    """These system calls of the node fail."""
    if not shutil.which("strace"):
        pytest.skip("there is no strace")
    line = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:error={error}", "-p", str(node.process.pid)]
    tracer = subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = tracer.stderr.readline()
    if "attached" not in said:
        tracer.wait()
        pytest.skip(f"no process may be traced here: {said}")
    reader = threading.Thread(target=tracer.stderr.read)
    reader.start()
    try:
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(20)
        reader.join(20)


@pytest.mark.parametrize("journal", ["write", "map"])
def test_row_16_a_read_that_fails_is_told_and_works_when_it_is_asked_for_again(own, journal):
    node = own("--journal", journal, "--segment-bytes", "64KiB").start()
    node.create("s")
    rows = [{"n": n, "text": "x" * 200} for n in range(2000)]
    for first in range(0, len(rows), 100):
        node.append("s", rows[first : first + 100])
    assert node.stop()[0] == 0
    # After a restart nothing of it is in the node's memory.
    node.start()
    reads = "pread64,preadv,preadv2,readv"
    with failing(node, reads, "EIO"):
        answer = node.get("/streams/s/records?from=0")
        assert answer.status >= 500 and "see the node's log" in answer.json()["error"], answer.body
        assert "os error 5" in node.said()
        assert node.get("/health").status == 200, "what was written is not lost"
    assert len(node.get("/streams/s/records?from=1990").lines()) == 10
    with failing(node, reads, "EIO"):
        answer = node.get("/streams/s/records?from=0")
        assert answer.status >= 500 and ".seg" in answer.json()["error"] and "os error 5" in answer.json()["error"], answer.body
        consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}", "group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition("s", 0, 0)])
        assert consumer.poll(1) is None, "nothing is served that could not be read"
    assert [it["value"] for it in node.records("s")] == rows
    message = wait(lambda: consumer.poll(1), 30, "the consumer goes on by itself")
    assert message.error() is None and message.offset() == 0
    consumer.close()
    node.append("s", [{"n": -1}])
    assert node.stop()[0] == 0


def test_a_gap_in_a_stream_is_an_error_that_clients_show(own):
    node = own("--segment-bytes", "64KiB").start()
    node.create("s")
    for first in range(0, 2000, 100):
        node.append("s", [{"n": n, "text": "x" * 200} for n in range(first, first + 100)])
    assert node.stop()[0] == 0
    segments = sorted(node.data.glob("log/streams/*/*.seg"))
    segments[len(segments) // 2].unlink()
    node.start()
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}", "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("s", 0, 0)])
    seen = []

    def error():
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            seen.append(message.offset())
        return message and message.error()

    wait(error, 30, "the gap is told")
    assert seen == list(range(len(seen))) and 0 < len(seen) < 2000
    answer = node.get(f"/streams/s/records?from={len(seen)}")
    assert answer.status == 500 and "are missing" in answer.json()["error"], answer.body
    assert "data cannot be served" in node.said()
    consumer.close()
