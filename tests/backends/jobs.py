"""Jobs run by the real binary, alone and on a node."""

import http.client
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from waiting import wait

ROOT = Path(__file__).resolve().parents[2]


def binary():
    path = Path(os.environ.get("TIDEMILL_BIN", ROOT / "target/debug/tidemill")).resolve()
    assert path.is_file(), f"{path}: build it, or set TIDEMILL_BIN"
    return str(path)


def environment(more):
    """Without variables that say who somebody is."""
    apart = ("TIDEMILL_", "AWS_", "REDIS_", "HBASE_")
    return {**{name: it for name, it in os.environ.items() if not name.startswith(apart)}, **more}


# Much state for each event, in four kinds of stages.
FILE_JOB = """
name: {name}
cycle: {{records: 500}}
slices: 8
checkpoint: {{every: 20ms, backend: {{{backend}}}}}
sources:
  events: {{file: {{path: {input}, format: json}}, time: {{field: ts}}}}
stages:
  new: {{from: events, dedup: {{on: [id]}}}}
  sums: {{from: new, key: [user], window: {{tumbling: 10m}}, aggregate: {{n: count(*), all: sum(amount), last: last(id)}}}}
  nth: {{from: new, key: [user], window: {{count: {{size: 1000000, every: 1}}}}, aggregate: {{n: count(*), id: last(id)}}}}
sinks:
  sums_file: {{from: sums, file: {{path: sums.ndjson, format: json}}}}
  nth_file: {{from: nth, file: {{path: nth.ndjson, format: json}}}}
"""
SINKS = ("sums.ndjson", "nth.ndjson")


class Run:
    """`tidemill run` of one job in a folder of its own."""

    def __init__(self, folder, job, variables):
        self.folder, self.variables = Path(folder), variables
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "job.yaml").write_text(job)

    def begin(self, *more, data="data"):
        return subprocess.Popen(
            [binary(), "run", "job.yaml", "--json", "--data", data, *more], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(self.variables))

    def whole(self, *more, data="data", code=0):
        """Runs it to its end; gives its summary, or what it said if it does not end well."""
        process = self.begin(*more, data=data)
        out, said = process.communicate(timeout=120)
        assert process.returncode == code, f"exit {process.returncode}\n{out}\n{said}"
        return json.loads(out.splitlines()[-1]) if code == 0 else said + out

    def written(self):
        return {name: (self.folder / name).read_bytes() for name in SINKS}

    def size(self):
        return sum((self.folder / name).stat().st_size for name in SINKS if (self.folder / name).exists())


# Never ends by itself; each user is counted from 1 on.
NODE_JOB = """
name: {name}
cycle: {{records: 10}}
slices: 8
checkpoint: {{every: 50ms, backend: {{{backend}}}}}
sources:
  events: {{stream: events, format: json, schema: {{id: bigint, user: text}}}}
stages:
  new: {{from: events, dedup: {{on: [id]}}}}
  nth: {{from: new, key: [user], window: {{count: {{size: 1000000, every: 1}}}}, aggregate: {{n: count(*), id: last(id)}}}}
sinks:
  out: {{from: nth, stream: counted}}
"""


class Node:
    """A node that serves."""

    def __init__(self, folder, variables):
        self.folder, self.variables, self.process, self.port = Path(folder), variables, None, None
        self.folder.mkdir(parents=True, exist_ok=True)

    def start(self):
        with open(self.folder / "node.log", "ab") as log:
            self.process = subprocess.Popen(
                [binary(), "serve", "--data", "node", "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(self.variables))
        ready = re.fullmatch(r"ready kafka=\S+ http=127.0.0.1:(\d+)\n", self.process.stdout.readline())
        assert ready, self.said()
        self.port = int(ready[1])
        return self

    def said(self):
        return (self.folder / "node.log").read_text(errors="replace")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=body)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        answer = response.read()
        assert response.status in (200, 201, 202), (response.status, answer)
        return headers, answer

    def append(self, records):
        self.ask("POST", "/streams/events/records", "".join(json.dumps(it) + "\n" for it in records))

    def records(self, stream):
        found, place = [], "earliest"
        while True:
            headers, answer = self.ask("GET", f"/streams/{stream}/records?from={place}")
            if not answer:
                return found
            found += [json.loads(line)["value"] for line in answer.splitlines()]
            place = headers["tidemill-next"]

    def submit(self, text):
        (self.folder / "job.yaml").write_text(text)
        done = subprocess.run(
            [binary(), "job", "submit", "job.yaml", "--http", f"127.0.0.1:{self.port}"], cwd=self.folder, text=True,
            capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr

    def delete(self, name):
        """The code of `tidemill job delete`, and what it said."""
        done = subprocess.run(
            [binary(), "job", "delete", name, "--http", f"127.0.0.1:{self.port}"], text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def job(self, name):
        return json.loads(self.ask("GET", f"/jobs/{name}")[1])

    def checkpoints(self, name):
        progress = self.job(name)["progress"]
        assert progress, self.said()
        return progress["checkpoints"]

    def wait_for(self, name, done, seconds=60):
        """Waits for the job's checkpoints to be as they should."""
        seen = []

        def look():
            seen[:] = [self.checkpoints(name)]
            return done(seen[0]) and seen[0]

        return wait(look, seconds, seen)
