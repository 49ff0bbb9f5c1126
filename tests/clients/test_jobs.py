"""Jobs of a node beside real clients: a job's source is a consumer of committed records, whatever is killed when."""

import json
import subprocess
import time
import uuid

import pytest

from agents import record
from brokers import Tidemill
from jobs import add_partitions, make_topic, produce
from waiting import wait

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


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_streamlets_that_are_added_are_read_from_their_first_record(node, killed):
    topic = make_topic(node.broker, f"t-{uuid.uuid4().hex[:8]}")
    produce(node.broker, topic, range(5), 1)
    node.submit(topic, "out", ", start: latest")
    sent = []
    for streamlets in [2, 5]:
        add_partitions(node.broker, topic, streamlets)
        numbers = range(10 * streamlets, 20 * streamlets)
        produce(node.broker, topic, numbers, streamlets)
        sent += numbers
        if killed:
            node.kill()
        wait(lambda: sorted(node.numbers("out")) == sent, 30, "each record of each streamlet is read once")
    is_so(lambda: sorted(node.numbers("out")) == sent)
    assert node.status("out")["status"] == "running"


def standing(consumer, topic, partitions=1):
    """The offsets that the consumer's group has committed."""
    return consumer.committed(*[(topic, it) for it in range(partitions)])


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_job_starts_where_a_group_stands_and_the_group_follows(node, own_agent, open_clients, client):
    topic, group = f"t-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    agent = own_agent(client, node.broker)
    producer = open_clients.producer(agent)
    producer.must_send(topic, values(range(10)))
    consumer = open_clients.consumer(agent, topics=[topic], group=group)
    assert len(consumer.read(10)) == 10
    consumer.commit()
    producer.must_send(topic, values(range(10, 15)))
    start = f", start: {{group: {group}}}"
    # Its consumer would commit offsets of its own.
    said = node.submit(topic, "out", start, code=2)
    assert "members that are alive (1)" in said and group in said
    open_clients.close(consumer)
    node.submit(topic, "out", start)
    wait(lambda: node.numbers("out") == list(range(10, 15)), 20, "it goes on where the consumer stopped")

    # Only asks: it assigns itself and never joins.
    asks = open_clients.consumer(agent, assign=[[topic, 0]], group=group)
    wait(lambda: standing(asks, topic) == [15], 20, "the group has what the job has written")
    for turn in range(3):
        producer.must_send(topic, values(range(15 + turn, 16 + turn)))
        wait(lambda: standing(asks, topic) == [16 + turn], 20, "it follows")
    assert node.numbers("out") == list(range(10, 18))

    node.kill()
    producer.must_send(topic, values(range(18, 25)))
    wait(lambda: node.numbers("out") == list(range(10, 25)), 20, "each row once after a kill")
    wait(lambda: standing(asks, topic) == [25], 20, "the group follows after a kill")
    node.broker.restart()
    producer.must_send(topic, values(range(25, 30)))
    wait(lambda: node.numbers("out") == list(range(10, 30)), 20, "each row once after a stop")
    wait(lambda: standing(asks, topic) == [30], 20, "the group follows after a stop")

    # Whoever comes after the job finds nothing twice.
    node.command("job", "cancel", "out")
    wait(lambda: node.status("out")["status"] == "cancelled", 20, "it ends")
    producer.must_send(topic, values(range(30, 33)))
    after = open_clients.consumer(agent, topics=[topic], group=group)
    assert [json.loads(it.value)["n"] for it in after.read(3)] == [30, 31, 32]


def test_a_group_is_never_ahead_of_what_a_job_has_written(node, own_agent, open_clients):
    topic, group = f"t-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    agent = own_agent("librdkafka", node.broker)
    producer = open_clients.producer(agent)
    producer.must_send(topic, values([0]))
    node.submit(topic, "out", f", start: {{group: {group}}}")
    asks = open_clients.consumer(agent, assign=[[topic, 0]], group=group)
    sent, stood = 1, []
    for turn in range(12):
        producer.must_send(topic, values(range(sent, sent + 50)))
        sent += 50
        # In this order: what the group has then is in the file now.
        stands = standing(asks, topic)[0]
        assert stands <= len(node.numbers("out")), "results first"
        stood.append(stands)
        if turn in (4, 8):
            node.kill()
    assert stood == sorted(stood), "it never goes back"
    wait(lambda: standing(asks, topic) == [sent], 20, "it has all")
    assert node.numbers("out") == list(range(sent))
