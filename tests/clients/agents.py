"""Clients as processes that do what a test asks: a JSON request a line, a JSON answer a line.

All agents know the same requests, so one test can be run with each client:

    producer {id, acks, codec, idempotent, transactional_id, ...}    init, begin, commit_txn, abort_txn {id}
    send {id, topic, records: [{partition, key, value, headers, timestamp}]} -> [[partition, offset, timestamp] or a failure],
        or nothing, at once, with {wait: false}
    consumer {id, topics, group, instance, strategy, session_ms, isolation, fetch_wait_ms} or {id, assign: [[topic, partition]], from}
    poll {id, count, ms} -> [[topic, partition, offset, timestamp, key, value, headers]]
    assignment, commit, committed {id, partitions}                   close_producer, close_consumer {id}
    transform {source, target, group, transactional_id, count, abort} -> [records, transactions]

The agents of Java and kafkajs know requests of their admin clients too. That of kafkajs has no `assign` and no `transform`, but
`send_offsets {id, group, offsets: [[topic, partition, offset]]}`. A process of its own can be stopped and killed."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from waiting import wait

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache/peers")) / "clients"


def java(libs):
    """The Java agent, with the client library in a folder of jars."""
    return [
        "java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", f"{HOME}/java/classes:{HOME}/java/{libs}/*", "Agent",
    ]


COMMANDS = {
    "librdkafka": [sys.executable, str(HERE / "python_agent.py"), "librdkafka"],
    "kafka-python": [sys.executable, str(HERE / "python_agent.py"), "kafka-python"],
    "franz-go": [str(HOME / "bin/franz-agent")],
    "java": java("libs"),
}
CLIENTS = tuple(COMMANDS)
# That of 3.7, which knows no admin requests here.
OLDER_JAVA = "older-java"
COMMANDS[OLDER_JAVA] = java("libs-older")
# Reads only as a member of a group, and has no Zstandard: most tests cannot be run with it.
KAFKAJS = "kafkajs"
COMMANDS[KAFKAJS] = ["env", f"NODE_PATH={HOME}/node/node_modules", "node", str(HERE / "node/agent.js")]


class Failed(Exception):
    """A client reported an error. `code` is the protocol's where it came from the broker, else below zero."""

    def __init__(self, answer):
        super().__init__(f"{answer['error']} ({answer['code']}): {answer['message']}")
        self.name, self.code = answer["error"], answer["code"]


def checked(answer):
    """What an answer gives."""
    if "error" in answer:
        raise Failed(answer)
    return answer["ok"]


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: tuple

    @staticmethod
    def of(fields):
        *most, headers = fields
        return Record(*most, tuple(tuple(it) for it in headers))


class Agent:
    """One process with a client library in it."""

    def __init__(self, client, bootstrap, log):
        self.client, self.bootstrap, self.log = client, bootstrap, log
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                COMMANDS[client], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
        self.answers = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def send(self, op, **ask):
        """Asks without waiting."""
        ask = {"op": op, "bootstrap": self.bootstrap, **ask}
        self.process.stdin.write(json.dumps({name: it for name, it in ask.items() if it is not None}) + "\n")
        self.process.stdin.flush()

    def answer(self, seconds=75):
        """The answer to the oldest request that has none yet."""
        return checked(self.raw_answer(seconds))

    def raw_answer(self, seconds=75):
        """As `answer`; what the client reports is not raised."""
        try:
            line = self.answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"{self.client}: no answer in {seconds} s") from None
        assert line is not None, f"{self.client} ended with {self.process.wait()}: {Path(self.log).read_text()[-3000:]}"
        return json.loads(line)

    def where(self):
        """What it has said, and of a Python client also where its threads are."""
        if COMMANDS[self.client][0] == sys.executable and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(TimeoutError):
                wait(lambda: "most recent call first" in Path(self.log).read_text(errors="replace"), 5, "its threads are told")
        return Path(self.log).read_text(errors="replace")[-6000:]

    def has_answer(self):
        return not self.answers.empty()

    def ask(self, op, seconds=75, **ask):
        self.send(op, **ask)
        return self.answer(seconds)

    def pause(self):
        self.process.send_signal(19)

    def go_on(self):
        self.process.send_signal(18)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        """Ends the process: its clients are gone without a word, as when a program ends."""
        self.process.stdin.close()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.kill()


class Producer:
    def __init__(self, agent, name, **options):
        self.agent, self.id = agent, name
        agent.ask("producer", id=name, **{"acks": "all", **options})

    def send(self, topic, records):
        """Sends all and waits for all; gives (partition, offset, timestamp) or a Failed of each."""
        found = self.agent.ask("send", id=self.id, topic=topic, records=records)
        return [Failed(it) if isinstance(it, dict) else tuple(it) for it in found]

    def must_send(self, topic, records):
        found = self.send(topic, records)
        failures = [it for it in found if isinstance(it, Failed)]
        assert not failures, f"{self.agent.client}: {failures[0]} and {len(failures) - 1} more"
        return found

    def __getattr__(self, op):
        """init, begin, commit_txn, abort_txn."""
        return lambda **ask: self.agent.ask(op, id=self.id, **ask)

    def close(self):
        self.agent.ask("close_producer", 20, id=self.id)


class Consumer:
    def __init__(self, agent, name, **options):
        self.agent, self.id = agent, name
        agent.ask("consumer", id=name, **options)

    def poll(self, count=1, ms=1000):
        return [Record.of(it) for it in self.agent.ask("poll", id=self.id, count=count, ms=ms)]

    def read(self, count, seconds=20):
        """Polls until `count` records were read, and gives them; fails if they do not come."""
        found, end = [], time.monotonic() + seconds
        while len(found) < count:
            assert time.monotonic() < end, f"{self.agent.client}: {len(found)} of {count} records in {seconds} s"
            found += self.poll(count - len(found), 1000)
        return found

    def assignment(self):
        return sorted(tuple(it) for it in self.agent.ask("assignment", id=self.id))

    def commit(self, wait=True):
        """Without waiting only with librdkafka, where it would wait for a rebalance that needs a poll."""
        self.agent.ask("commit", id=self.id, wait=wait)

    def committed(self, *partitions):
        return self.agent.ask("committed", id=self.id, partitions=[list(it) for it in partitions])

    def close(self):
        self.agent.ask("close_consumer", 20, id=self.id)


def record(value, key=None, partition=0, timestamp=None, headers=()):
    return {"partition": partition, "key": key, "value": value, "timestamp": timestamp, "headers": [list(it) for it in headers]}
