"""Workers of Kafka Connect, and MirrorMaker 2, as processes; Connect's REST, and what must not be in their logs."""

import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from brokers import PEER, Broker, free_port
from engines import built
from waiting import wait

PATIENCE_S = 120
"""For whatever has to come: with two busy cores all of it takes its time."""

SESSION_MS = 6_000
"""For so long a worker that was killed, or a consumer of its, is taken to be there: as short as brokers allow by themselves."""


class Java(Broker):
    """A process of Connect: started, killed and paused as brokers are."""

    main = ""

    def command(self):
        file = self.folder / f"{self.name}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        # One that compiles little and cleans up alone starts soonest.
        machine = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]
        return ["java", *machine, f"-Dlog4j2.configurationFile={PEER}/log4j2.xml", "-cp", built("connect"), self.main, file]

    def text(self):
        return self.log.read_text(errors="replace")


class Worker(Java):
    """One worker of a group."""

    name, main = "connect", "org.apache.kafka.connect.cli.ConnectDistributed"

    def __init__(self, folder, settings):
        self.rest = f"http://127.0.0.1:{free_port()}"
        super().__init__(folder, {**settings, "listeners": self.rest})

    @property
    def id(self):
        """As statuses name it."""
        return self.rest.removeprefix("http://")

    def is_ready(self):
        """It has joined its group, and read what that knows."""
        self.check()
        try:
            return (ask(self.rest, "GET", "/health") or {}).get("status") == "healthy"
        except (OSError, Later):
            return False


class Mirror(Java):
    """MirrorMaker 2, as a process for all of its directions."""

    name, main = "mirror", "org.apache.kafka.connect.mirror.MirrorMaker"

    def is_ready(self):
        """Whether it works is seen by what it does."""
        self.check()
        return True


class Later(Exception):
    """It cannot be answered now: workers share out their work, or whoever has to do it is away."""


class Refused(Exception):
    """It is not to be had at all."""


def ask(rest, method, path, body=None):
    """What a worker answers; nothing if there is no such thing."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(rest + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        if error.code == 404:
            return None
        raise (Later if error.code == 409 or error.code >= 500 else Refused)(f"{method} {path}: {error.code} {said}") from None


class Group:
    """Some workers that share out their connectors, and what their REST says, whichever of them answers."""

    def __init__(self, broker, folder, workers=2, **settings):
        self.broker, self.folder = broker, Path(folder)
        common = {
            "bootstrap.servers": broker.address,
            "group.id": "workers",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": 300,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 1_000,
            "consumer.session.timeout.ms": SESSION_MS,
            "consumer.heartbeat.interval.ms": 1_000,
            # What a worker that is gone had is shared out at once.
            "scheduled.rebalance.max.delay.ms": 0,
        }
        for kind in ["config", "offset", "status"]:
            common |= {f"{kind}.storage.topic": f"connect-{kind}s", f"{kind}.storage.replication.factor": 1}
        for kind in ["offset", "status"]:
            common |= {f"{kind}.storage.partitions": 2}
        common |= {it.replace("_", "."): value for it, value in settings.items()}
        self.workers = [Worker(self.folder / f"worker{i}", common) for i in range(workers)]

    def start(self):
        built("connect")
        for it in self.workers:
            it.launch()
        for it in self.workers:
            wait(it.is_ready, PATIENCE_S, f"{it.folder.name} ready")
        return self

    def kill(self):
        for it in self.workers:
            it.kill()

    def ask(self, method, path, body=None):
        end = time.monotonic() + PATIENCE_S
        while True:
            why = "no worker is there"
            for it in self.workers:
                if it.process.poll() is not None or it.is_paused():
                    continue
                try:
                    return ask(it.rest, method, path, body)
                except (OSError, Later) as error:
                    why = error
            assert time.monotonic() < end, f"{method} {path}: not within {PATIENCE_S} s: {why}"
            time.sleep(0.1)

    def make(self, name, kind, **settings):
        """Makes a connector that reads a file, or writes one, or changes it; returns when it runs."""
        config = {"connector.class": f"FileStream{kind}", "tasks.max": 1, **settings}
        self.ask("PUT", f"/connectors/{name}/config", {it: str(value) for it, value in config.items()})
        self.wait_for(name, "RUNNING", int(config["tasks.max"]))

    def change(self, name, what, state, tasks=1):
        """Pauses, resumes or stops a connector; returns when all of it is so."""
        self.ask("PUT", f"/connectors/{name}/{what}")
        self.wait_for(name, state, tasks)

    def delete(self, name):
        self.ask("DELETE", f"/connectors/{name}")
        wait(lambda: self.ask("GET", f"/connectors/{name}/status") is None, PATIENCE_S, f"{name} is gone")

    def wait_for(self, name, state, tasks=1):
        found = None

        def is_so():
            nonlocal found
            found = self.ask("GET", f"/connectors/{name}/status")
            states = [it["state"] for it in [found["connector"], *found["tasks"]]] if found else []
            assert "FAILED" not in states, f"{name} has failed: {found}"
            return states == [state] * (1 + tasks)

        try:
            wait(is_so, PATIENCE_S, f"{name} is {state}")
        except TimeoutError as error:
            raise AssertionError(f"{error}: {found}") from None

    def tasks(self, name):
        """Which workers have its tasks that run."""
        found = self.ask("GET", f"/connectors/{name}/status") or {"tasks": []}
        return [it["worker_id"] for it in found["tasks"] if it["state"] == "RUNNING"]

    def offsets(self, name):
        return [(it["partition"], it["offset"]) for it in self.ask("GET", f"/connectors/{name}/offsets")["offsets"]]

    def set_offsets(self, name, offsets):
        self.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": where, "offset": at} for where, at in offsets]})

    def worker_of(self, name):
        """The worker that has the one task of a connector."""
        [found] = wait(lambda: self.tasks(name), PATIENCE_S, f"{name} runs")
        return next(it for it in self.workers if it.id == found)


class Reader:
    """What committed readers see in a topic, more with each look."""

    def __init__(self, broker, topic, partitions=1):
        settings = {"group.id": "look", "isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer, self.found, self.read = Consumer({"bootstrap.servers": broker.address, **settings}), [], []
        self.consumer.assign([TopicPartition(topic, it, 0) for it in range(partitions)])

    def messages(self):
        while (message := self.consumer.poll(0.1)) is not None:
            # While the node is away there are errors, and then it goes on.
            if message.error() is None:
                self.found.append(message)
        return self.found

    def values(self):
        self.read += [json.loads(it.value()) for it in self.messages()[len(self.read):]]
        return self.read

    def close(self):
        self.consumer.close()


FAULTS = [
    # An answer or a request that one side cannot read.
    r"UnsupportedVersion", r"UNSUPPORTED_VERSION", r"SchemaException", r"Error reading (field|array|byte)", r"BufferUnderflow",
    r"CorruptRecord", r"CORRUPT_MESSAGE", r"Correlation id", r"InvalidRequest", r"INVALID_REQUEST", r"InvalidRecord", r"INVALID_RECORD",
    # Errors that no request here has earned.
    r"UnknownServer", r"UNKNOWN_SERVER_ERROR", r"[Uu]nexpected error code", r"Unexpected error in", r"InvalidTxnState", r"INVALID_TXN_STATE",
    r"OutOfOrderSequence", r"OUT_OF_ORDER_SEQUENCE", r"UnknownProducerId", r"InvalidProducerIdMapping", r"INVALID_PRODUCER_ID_MAPPING",
    r"OffsetOutOfRange", r"OFFSET_OUT_OF_RANGE", r"InvalidConfiguration", r"INVALID_CONFIG", r"InvalidReplicationFactor", r"KafkaStorage",
    r"InconsistentTopicId", r"InvalidCommitOffsetSize", r"InvalidOffset", r"ClassCastException",
    r"NullPointerException",
]
"""What clients say of a broker that is at fault. Whatever else they warn of, such as of a node that is away, of a leader that is
not known yet or of a heartbeat that came late, is of machines that are busy and of processes that are killed."""

EXPLAINED = [
    # Of a worker that is made to stand still, perhaps in the middle of a request or while it is answered.
    r"connection closed: an answer was not taken after",
    r"connection closed: a request was not whole",
]
"""What our node may warn of, and why."""


def faults(process):
    """The warnings and errors of a log that tell of a broker at fault, also by what caused them, which is in lines of its own."""
    found, warns, said = re.compile("|".join(FAULTS)), False, []
    for line in process.text().splitlines():
        if line.startswith("["):
            warns = re.match(r"\[[^]]*\] (WARN|ERROR|FATAL) ", line)
        if warns and found.search(line):
            said.append(line)
    return said


def warnings(broker):
    """What a node of ours warns of, if it has no reason to. Apache Kafka warns as it likes."""
    if broker.name != "tidemill":
        return []
    known = re.compile("|".join(EXPLAINED))
    lines = broker.log.read_text(errors="replace").splitlines()
    return [it for it in lines if re.search(r"\b(WARN|ERROR)\b|panicked", it) and not known.search(it)]


def no_complaints(broker, processes):
    """What must be so when a suite ends, whatever was killed in it."""
    said = warnings(broker)
    assert not said, f"the node warns: {said[:10]}"
    for it in processes:
        said = faults(it)
        assert not said, f"{it.folder.name}: {len(said)}: {said[:10]}"
