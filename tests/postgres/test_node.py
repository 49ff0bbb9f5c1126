"""A node that is killed at any moment: its jobs go on by themselves."""

import json
import os
import random
import signal
import subprocess

import pytest

from mill import TIMED, binary
from waiting import wait
from test_once import HEAD, ROWS, STAGES


class Node:
    """`tidemill serve`, and jobs given to it."""

    def __init__(self, folder):
        self.folder, self.process, self.http = folder, None, None

    def start(self):
        ready = self.folder / "ready.txt"
        listen = ["--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
        with open(ready, "wb") as out, open(self.folder / "node.log", "ab") as log:
            self.process = subprocess.Popen(
                [binary(), "serve", "--data", "node", *listen], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=out, stderr=log, env={**os.environ, "PGPASSWORD": "not-this-one"})

        def address():
            assert self.process.poll() is None, self.said()
            text = ready.read_text()
            return text.rsplit("http=", 1)[1].strip() if text.endswith("\n") else None

        self.http = wait(address, 20, "ready")
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def said(self):
        return (self.folder / "node.log").read_text(errors="replace")

    def job(self, *arguments):
        ran = subprocess.run([binary(), "job", *arguments, "--http", self.http], cwd=self.folder, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr + self.said()
        return ran.stdout + ran.stderr


    def ended(self):
        """What became of the job; none while it runs."""
        status = json.loads(self.job("status", "job", "--json"))
        return None if status["status"] in ("running", "waiting") else status


@pytest.fixture
def node(mill):
    made = Node(mill.folder).start()
    yield made
    made.kill()


def test_a_job_of_a_killed_node_goes_on(mill, node):
    mill.numbered(ROWS)
    url = mill.database.url.replace("postgres@", "postgres:hunter2@")
    out = mill.table("out", url=url, of="kept")
    sums = mill.table("sums", "key: [name, window_start]", url=url, of="per_name", sink="sums")
    mill.job(f"{out}\n{sums}", STAGES, HEAD + "\ncheckpoint: {every: 20ms}", TIMED)
    said = node.job("submit", "job.yaml")
    chance = random.Random(1)
    kills = 0
    for cycle in sorted(chance.sample(range(1, 330), 4)):
        wait(lambda: (mill.database.cycle() or 0) >= cycle, 30, f"cycle {cycle}")
        node.kill()
        kills += 1
        node.start()
    status = wait(node.ended, 30, "the end")
    assert status["status"] == "finished", status
    assert [row[0] for row in mill.database.rows("out")] == [i for i in range(ROWS) if i % 3 != 1], kills
    assert mill.database.ask("SELECT sum(n), count(*) = count(DISTINCT (name, window_start)) FROM sums") == [(ROWS * 2 // 3, True)]
    for text in (said, json.dumps(status), node.said()):
        assert "hunter2" not in text and "not-this-one" not in text, text
