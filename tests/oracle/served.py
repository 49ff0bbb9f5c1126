"""A node that serves, which tests give jobs to."""

import json
import re
import signal
import subprocess

# A job that fills the stream `flights`, and ends.
FILL = """
name: fill
cycle: {{records: 1000}}
sources:
  flights: {{file: {{path: {inputs}/flights.ndjson, format: json}}}}
stages:
  kept: {{from: flights, where: distance > 300, select: {{id: id, ts: ts, carrier: carrier, dep_delay: dep_delay}}}}
sinks:
  stored: {{from: kept, stream: {{name: flights, key: [carrier], streamlets: 3}}}}
"""

# Keeps a state, and goes on from it: ids that it has seen, and how many came of each carrier.
KEEP = """
name: keep
cycle: {{records: 10}}
checkpoint: {{every: {every}}}
sources:
  flights: {{stream: flights, format: json, schema: {{id: bigint, carrier: text}}}}
stages:
  new: {{from: flights, dedup: {{on: [id]}}}}
  nth: {{from: new, key: [carrier], window: {{count: {{size: 1000000, every: 1}}}}, aggregate: {{n: count(*), id: last(id)}}}}
sinks:
  out: {{from: nth, stream: counted}}
"""


class Node:
    """A node that serves, and the command line that speaks to it."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.process = str(binary), folder, None

    def start(self):
        self.process = subprocess.Popen(
            [self.binary, "serve", "--data", "node", "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"],
            cwd=self.folder, stdout=subprocess.PIPE, text=True)
        ready = re.fullmatch(r"ready kafka=(\S+) http=(\S+)\n", self.process.stdout.readline())
        assert ready, "the node did not start"
        self.kafka, self.http = ready.groups()

    def end(self, how):
        self.process.send_signal(how)
        code = self.process.wait(timeout=10)
        assert code == (0 if how == signal.SIGTERM else -how)

    def command(self, *arguments, code=0):
        """Asks with the command line."""
        ran = subprocess.run(
            [self.binary, *arguments, "--http", self.http],
            cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert ran.returncode == code, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

    def job(self, *arguments, code=0):
        return self.command("job", *arguments, code=code)

    def checkpoint(self, *arguments, code=0):
        return self.command("checkpoint", *arguments, code=code)

    def stream(self, *arguments, lines=()):
        """Asks about streams; `lines` are what it reads."""
        line = [self.binary, "stream", *arguments, "--bootstrap", self.kafka]
        subprocess.run(line, input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True)

    def submit(self, text, code=0):
        (self.folder / "job.yaml").write_text(text, encoding="utf-8")
        return self.job("submit", "job.yaml", code=code)

    def length(self, stream):
        """Records of a stream."""
        line = [self.binary, "stream", "describe", stream, "--json", "--bootstrap", self.kafka]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
        return sum(it["end"] for it in json.loads(ran.stdout)["streamlets"])

    def wait(self, name, done):
        """Asks until the job is as it should be; each question takes a process's time."""
        for _ in range(600):
            job = json.loads(self.job("status", name, "--json"))
            if done(job):
                return job
        raise AssertionError(f"job {name}: {job}")

    def records(self, stream):
        """The records of a stream, as a job reads them."""
        self.submit(f"""
name: seen
sources: {{records: {{stream: {stream}, format: json, until: latest}}}}
sinks: {{out: {{from: records, file: {{path: seen.ndjson, format: json}}}}}}
""")
        self.wait("seen", finished)
        with open(self.folder / "seen.ndjson", encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def finished(job):
    assert job["status"] in ("running", "finished"), job
    return job["status"] == "finished"


def written(job):
    return (job["progress"] or {"sinks": [{"rows": 0}]})["sinks"][0]["rows"]


def saved(job):
    return (job["progress"] or {"checkpoints": {"completed": 0}})["checkpoints"]["completed"]
