"""Jobs of a node beside real clients: a job's source is a consumer of committed records, whatever is killed when."""

import json
import subprocess
import time
import uuid

import pytest

from agents import record
from brokers import Tidemill, wait

pytestmark = pytest.mark.jobs


class Node:
    """A node of the test's own with jobs, and a topic."""

    def __init__(self, broker, folder):
        self.broker, self.folder = broker, folder

    def command(self, *arguments, code=0):
        line = self.broker.command()[0:1] + [*arguments, "--http", f"127.0.0.1:{self.broker.http_port}"]
        ran = subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert ran.returncode == code, f"{line}: exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

    def submit(self, topic, out, source="", code=0, more=()):
        """A job that copies the values of a topic to a file."""
        job = self.folder / f"{out}.yaml"
        schema = "schema: {n: bigint}"
        job.write_text(
            f"name: {out}\ncycle: {{time: 20ms}}\n"
            f"sources: {{in: {{stream: {topic}, format: json, {schema}, meta: {{offset: at}}{source}}}}}\n"
            f"sinks: {{out: {{from: in, file: {{path: {self.folder / out}.ndjson, format: json}}}}}}\n", encoding="utf-8")
        return self.command("job", "submit", str(job), *more, code=code)

    def rows(self, out):
        """What the job has written so far: whole lines."""
        path = self.folder / f"{out}.ndjson"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def numbers(self, out):
        return [it["n"] for it in self.rows(out)]

    def status(self, out):
        return json.loads(self.command("job", "status", out, "--json"))

    def kill(self):
        self.broker.kill()
        self.broker.start()


@pytest.fixture
def node(tmp_path):
    broker = Tidemill(tmp_path / "node").start()
    yield Node(broker, tmp_path)
    broker.kill()


def values(numbers):
    return [record(json.dumps({"n": it})) for it in numbers]


def is_so(condition, seconds=1.0):
    """Holds for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition()
        time.sleep(0.05)


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("writer", ["librdkafka", "java"])
def test_a_job_sees_committed_transactions_whole_and_nothing_of_others(node, own_agent, open_clients, writer, killed):
    def between():
        if killed:
            node.kill()

    topic = f"t-{uuid.uuid4().hex[:8]}"
    agent = own_agent(writer, node.broker)
    plain = open_clients.producer(agent)
    producer = open_clients.producer(agent, transactional_id=topic)
    producer.init()
    plain.must_send(topic, values([0, 1]))
    node.submit(topic, "out")
    node.submit(topic, "all", ", isolation: uncommitted")
    wait(lambda: node.numbers("out") == [0, 1] == node.numbers("all"), 20, "what is in no transaction is there")

    producer.begin()
    producer.must_send(topic, values([10, 11, 12]))
    plain.must_send(topic, values([2]))
    wait(lambda: node.numbers("all") == [0, 1, 10, 11, 12, 2], 20, "the other job reads all")
    between()
    is_so(lambda: node.numbers("out") == [0, 1])
    # A job that ends at the latest does not wait for a transaction that is open.
    node.submit(topic, "bounded", ", until: latest")
    wait(lambda: node.status("bounded")["status"] == "finished", 20, "it ends")
    assert node.numbers("bounded") == [0, 1]
    producer.commit_txn()
    committed = [0, 1, 10, 11, 12, 2]
    wait(lambda: node.numbers("out") == committed, 20, "all of a committed transaction, at once")

    producer.begin()
    producer.must_send(topic, values([20, 21]))
    plain.must_send(topic, values([3]))
    between()
    is_so(lambda: node.numbers("out") == committed)
    producer.abort_txn()
    wait(lambda: node.numbers("out") == [*committed, 3], 20, "nothing of an aborted one")
    between()
    plain.must_send(topic, values([4]))
    wait(lambda: node.numbers("out") == [*committed, 3, 4], 20, "it goes on")
    wait(lambda: node.numbers("all") == [*committed, 20, 21, 3, 4], 20, "the other job has read all of it")
    offsets = [it["at"] for it in node.rows("out")]
    assert offsets == sorted(set(offsets)), "each record once, in order"
    assert node.status("out")["status"] == "running"


def test_a_waiting_job_is_woken_by_the_end_of_a_transaction(node, own_agent, open_clients):
    topic = f"t-{uuid.uuid4().hex[:8]}"
    producer = open_clients.producer(own_agent("librdkafka", node.broker), transactional_id=topic)
    producer.init()
    producer.begin()
    producer.must_send(topic, values([1]))
    node.submit(topic, "out")
    took = []
    for turn in range(1, 8):
        began = time.monotonic()
        producer.commit_txn()
        wait(lambda: node.numbers("out") == list(range(1, turn + 1)), 20, "it is read")
        took.append(time.monotonic() - began)
        producer.begin()
        producer.must_send(topic, values([turn + 1]))
    # Nothing else happens, so a job that looks only now and then would be late in most turns.
    assert sorted(took)[len(took) // 2] < 0.5, took
