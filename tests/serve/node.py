"""A node as a process, and HTTP spoken to it byte by byte or as a client does."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from waiting import wait

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 20
STOP_SECONDS = 5


def binary():
    path = Path(os.environ.get("TIDEMILL_BIN", ROOT / "target/debug/tidemill")).resolve()
    assert path.is_file(), f"{path}: build it, or set TIDEMILL_BIN"
    return str(path)


def clean_environment(more=None):
    """Without the variables that are settings of a node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
    return {**kept, **(more or {})}


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def lines(self):
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def next(self):
        return self.headers["tidemill-next"]


class Node:
    """One `tidemill serve`. `flags` are as on the command line."""

    def __init__(self, folder, *flags, variables=None, ports=(0, 0)):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data, self.log = self.folder / "data", self.folder / "node.log"
        self.flags, self.variables = list(flags), variables
        self.kafka_port, self.http_port = ports
        self.process = None

    def command(self):
        addresses = ["--kafka-listen", f"127.0.0.1:{self.kafka_port}", "--http-listen", f"127.0.0.1:{self.http_port}"]
        return [binary(), "serve", "--data", str(self.data), *addresses, *self.flags]

    def begin(self):
        """Starts the process and does not wait for it."""
        self.out = open(self.folder / "out.txt", "wb+")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=self.out, stderr=log, env=clean_environment(self.variables), start_new_session=True)
        return self

    def start(self):
        self.begin()
        wait(self.is_ready, READY_SECONDS, "ready")
        return self

    def stdout(self):
        return (self.folder / "out.txt").read_text()

    def is_ready(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.said()}"
        text = self.stdout()
        if not text.endswith("\n"):
            return False
        word, kafka, http_ = text.split()
        assert word == "ready" and kafka.startswith("kafka=127.0.0.1:") and http_.startswith("http=127.0.0.1:"), text
        self.kafka_port, self.http_port = int(kafka.rsplit(":", 1)[1]), int(http_.rsplit(":", 1)[1])
        return True

    def said(self):
        return self.log.read_text(errors="replace")

    def stop(self, number=signal.SIGTERM):
        """Tells it to stop; gives its code and the seconds that took."""
        began = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(STOP_SECONDS)
        return code, time.monotonic() - began

    def kill(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def rss_bytes(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http_port}"

    def connection(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, timeout=60):
        connection = self.connection(timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body=body, **more)

    def create(self, name, query=""):
        answer = self.ask("PUT", f"/streams/{name}{query}")
        assert answer.status == 201, answer.body
        return answer.json()

    def append(self, name, records, query=""):
        body = "".join(json.dumps(it) + "\n" for it in records)
        if not all(isinstance(it, dict) for it in records):
            # Lines of JSON are objects; text is any line.
            query += f"{'&' if query else '?'}format=text"
        answer = self.post(f"/streams/{name}/records{query}", body)
        assert answer.status == 200, answer.body
        return answer.json()

    def records(self, name, query="from=earliest"):
        """All records from a place on, as they are now."""
        found, place = [], query
        while True:
            answer = self.get(f"/streams/{name}/records?{place}")
            assert answer.status == 200, answer.body
            lines = answer.lines()
            if not lines:
                return found
            found += lines
            place = f"from={answer.next}"

    def metrics(self):
        """All figures of /metrics by name."""
        answer = self.get("/metrics")
        assert answer.status == 200
        figures = {}
        for line in answer.body.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                figures[name.split("{")[0]] = float(value)
        return figures

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.http_port), timeout=30)


def refused(folder, *flags, variables=None):
    """Runs `tidemill serve` which must not start: gives what it said and the seconds it took."""
    began = time.monotonic()
    done = subprocess.run(
        [binary(), "serve", *flags], cwd=folder, capture_output=True, text=True, timeout=20, env=clean_environment(variables))
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stdout == "", "nobody is told that it answers"
    return done.stderr, time.monotonic() - began
