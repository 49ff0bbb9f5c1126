"""Jobs that read and write topics of a cluster, as processes, and what the cluster has of theirs."""

import json
import os
import signal
import subprocess
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from brokers import ROOT
from waiting import wait

BINARY = os.environ.get("TIDEMILL_BIN", str(ROOT / "target/debug/tidemill"))


def make_topic(kafka, name, partitions=1, copies=1, **settings):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.create_topics([NewTopic(name, partitions, copies, config=settings)]).values():
        future.result(60)
    return name


def add_partitions(kafka, topic, count):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result(60)


def delete_topic(kafka, name):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.delete_topics([name]).values():
        future.result(60)
    wait(lambda: name not in admin.list_topics(timeout=30).topics, 30, "the topic is gone")


def produce(kafka, topic, numbers, partitions, **settings):
    """Sends {"n": number}, each to its partition, and waits until all are there."""
    producer = Producer({"bootstrap.servers": kafka.address, "enable.idempotence": True, "linger.ms": 2, **settings})
    for n in numbers:
        producer.produce(topic, json.dumps({"n": n}), key=str(n % 7), partition=n % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


def ends(kafka, topic, partitions):
    """The last stable offsets."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "ends", "isolation.level": "read_committed"})
    try:
        def of(partition):
            try:
                return [consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)[1]]
            except KafkaException as error:
                # A broker that has just started leads nothing yet.
                assert error.args[0].retriable() or error.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION, error
                return None

        return [wait(lambda: of(it), 60, "the last stable offset is told")[0] for it in range(partitions)]
    finally:
        consumer.close()


def committed(kafka, topic, partitions, seconds=60):
    """All committed records of a topic, by partition: offset, key, value."""
    goal = ends(kafka, topic, partitions)
    settings = {"group.id": "read", "isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.partition.eof": False}
    consumer = Consumer({"bootstrap.servers": kafka.address, **settings})
    found = [[] for _ in range(partitions)]
    try:
        consumer.assign([TopicPartition(topic, it, 0) for it in range(partitions)])

        def there():
            message = consumer.poll(0.05)
            while message is not None:
                assert message.error() is None, message.error()
                found[message.partition()].append((message.offset(), message.key(), json.loads(message.value())))
                message = consumer.poll(0)
            at = consumer.position([TopicPartition(topic, it) for it in range(partitions)])
            return all(p.offset >= end for p, end in zip(at, goal) if end > 0)

        wait(there, seconds, "all committed records are read")
    finally:
        consumer.close()
    return found


class Job:
    """A job of a file of its own, run by `tidemill run`."""

    def __init__(self, folder, spec):
        self.folder, self.process = Path(folder), None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file, self.data, self.log = self.folder / "job.yaml", self.folder / "state", self.folder / "run.log"
        # JSON is YAML.
        self.file.write_text(json.dumps(spec))

    def start(self, *more):
        line = [BINARY, "run", str(self.file), "--data", str(self.data), "--json", *more]
        with open(self.log, "ab") as log:
            environment = {**os.environ, "TIDEMILL_LOG": "info"}
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)
        return self

    def text(self):
        return self.log.read_text(errors="replace")

    def stalled(self):
        """What the last progress that was printed says."""
        told = [line for line in self.text().splitlines() if line.startswith('{"type":"progress"') and line.endswith("}")]
        return json.loads(told[-1])["job"]["stalled"] if told else None

    def check(self):
        assert self.process.poll() is None, f"the job ended with {self.process.returncode}: {self.text()[-3000:]}"

    def finish(self, seconds=60):
        code = self.process.wait(seconds)
        assert code == 0, self.text()[-3000:]

    def stop(self, seconds=30):
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(seconds)

    def kill(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def source(kafka, topic, **more):
    return {"kafka": {"brokers": kafka.address, "topic": topic, "format": "json", **more}}


def to_topic(kafka, topic, out, delivery="exactly-once", sink=None, **more):
    sinks = {"y": {"from": "x", "kafka": {"brokers": kafka.address, "topic": out, **(sink or {})}}}
    return {"name": "copy", "delivery": delivery, "sources": {"x": source(kafka, topic, **more)}, "sinks": sinks}


def numbers(kafka, topic, partitions):
    return [value["n"] for records in committed(kafka, topic, partitions) for _, _, value in records]
