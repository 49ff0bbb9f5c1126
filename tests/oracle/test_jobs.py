"""Jobs that a node runs: given to it by the command line, over its restarts and its death."""

import json
import random
import re
import signal
import subprocess
import time

import pytest

from mill import DAY, same

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
DAILY = """
name: daily
sources:
  flights: {stream: flights, format: json, until: latest, time: {field: ts, lateness: 30d}}
stages:
  days: {from: flights, key: [carrier], window: {tumbling: 1d}, aggregate: {n: count(*), late: sum(dep_delay)}}
sinks:
  out: {from: days, file: {path: daily.ndjson, format: json}}
"""
# Reads what comes, and never ends by itself.
COPY = """
name: copy
sources:
  flights: {stream: flights, format: json, schema: {id: bigint}}
stages:
  ids: {from: flights, select: {id: id}}
sinks:
  out: {from: ids, stream: ids}
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

    def job(self, *arguments, code=0):
        ran = subprocess.run(
            [self.binary, "job", *arguments, "--http", self.http],
            cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert ran.returncode == code, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

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


@pytest.fixture
def node(binary, tmp_path):
    node = Node(binary, tmp_path)
    node.start()
    yield node
    if node.process.poll() is None:
        node.process.kill()
        node.process.wait()


def finished(job):
    assert job["status"] in ("running", "finished"), job
    return job["status"] == "finished"


def written(job):
    return (job["progress"] or {"sinks": [{"rows": 0}]})["sinks"][0]["rows"]


def test_jobs_are_given_to_a_node(node, inputs, db):
    assert "there are no jobs" in node.job("list")
    assert "job fill is running" in node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    node.submit(DAILY)
    node.wait("daily", finished)
    rows = [json.loads(line) for line in open(node.folder / "daily.ndjson", encoding="utf-8")]
    same(db, rows, f"""
        select carrier, moment(floor_to(ts, {DAY})) as window_start, moment(floor_to(ts, {DAY}) + {DAY}) as window_end,
               count(*) as n, sum(dep_delay) as late
        from flights where distance > 300 group by all""")
    assert re.search(r"daily\W+finished\W+exactly-once", node.job("list"))
    assert "is not running" in node.job("cancel", "daily", code=2)
    assert "there is no job `other`" in node.job("status", "other", code=2)
    node.end(signal.SIGTERM)


def test_what_a_node_refuses_names_its_place(node):
    said = node.submit(COPY, code=2)
    assert "job.yaml:4:" in said and "there is no stream `flights`" in said
    said = node.submit("name: x\nsources: {a: {stream: s}}\nsinks: {b: {from: a, blackhole: {}}}\n", code=2)
    assert "has no format" in said
    node.end(signal.SIGTERM)
    assert "tidemill serve" in node.job("list", code=1)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "stop"])
def test_a_job_goes_on_when_its_node_comes_back(node, inputs, db, how):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.submit(COPY)
    node.wait("copy", lambda it: written(it) > 0)
    node.end(how)
    node.start()
    node.job("rescale", "copy", "--threads", "1")
    node.wait("copy", lambda it: it["progress"]["sources"][0]["records"] == count)
    node.job("cancel", "copy")
    node.wait("copy", lambda it: it["status"] == "cancelled")
    node.submit("""
name: seen
sources: {ids: {stream: ids, format: json, until: latest}}
sinks: {out: {from: ids, file: {path: seen.ndjson, format: json}}}
""")
    node.wait("seen", finished)
    rows = [json.loads(line) for line in open(node.folder / "seen.ndjson", encoding="utf-8")]
    same(db, rows, "select id from flights where distance > 300")
    node.end(signal.SIGTERM)


# Keeps a state, and goes on from it: ids that it has seen, and how many came of each carrier.
KEEP = """
name: keep
cycle: {records: 10}
checkpoint: {every: 50ms}
sources:
  flights: {stream: flights, format: json, schema: {id: bigint, carrier: text}}
stages:
  new: {from: flights, dedup: {on: [id]}}
  nth: {from: new, key: [carrier], window: {count: {size: 1000000, every: 1}}, aggregate: {n: count(*), id: last(id)}}
sinks:
  out: {from: nth, stream: counted}
"""


def saved(job):
    return (job["progress"] or {"checkpoints": {"completed": 0}})["checkpoints"]["completed"]


def test_a_killed_job_on_streams_goes_on_from_its_checkpoints(node, inputs, db):
    draw = random.Random(40)
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.submit(KEEP)
    went_on = kills = 0
    while kills < 8:
        # When all is read nothing changes any more, and there is nothing to save.
        node.wait("keep", lambda it: saved(it) or node.length("counted") >= count)
        time.sleep(draw.random() * 0.2)
        node.end(signal.SIGKILL)
        kills += 1
        node.start()
        progress = node.wait("keep", lambda it: it["progress"])["progress"]
        assert progress["checkpoints"]["cycle"] > 0, "it began anew"
        went_on += node.length("counted") < count
    assert went_on > 1, "it was over before it was killed"
    node.wait("keep", lambda _: node.length("counted") >= count)
    assert "checkpoint of cycle" in node.job("status", "keep")
    node.job("cancel", "keep")
    node.wait("keep", lambda it: it["status"] == "cancelled")
    node.submit("""
name: seen
sources: {counted: {stream: counted, format: json, until: latest}}
sinks: {out: {from: counted, file: {path: seen.ndjson, format: json}}}
""")
    node.wait("seen", finished)
    rows = [json.loads(line) for line in open(node.folder / "seen.ndjson", encoding="utf-8")]
    assert len(rows) == count
    same(db, [{"id": it["id"]} for it in rows], "select id from flights where distance > 300")
    # Each carrier is counted from 1 on without a gap, whatever was killed when.
    same(db, [{"carrier": it["carrier"], "n": it["n"]} for it in rows], """
        select carrier, row_number() over (partition by carrier) as n from flights where distance > 300""")
    node.end(signal.SIGTERM)


@pytest.mark.parametrize("kept", ["", "checkpoint: {every: 20ms}"], ids=["ledger", "checkpoints"])
def test_row_25_dead_letters_are_there_once_after_kills(node, kept):
    draw = random.Random(25)
    good, bad = [], []
    with open(node.folder / "mixed.ndjson", "w", encoding="utf-8") as file:
        for number in range(200_000):
            if draw.random() < 0.02:
                bad.append((number + 1, f'{{"id": {number}, "n": '))
                file.write(bad[-1][1] + "\n")
            else:
                good.append({"id": number, "n": number * 3})
                file.write(json.dumps(good[-1]) + "\n")
    out, letters = node.folder / "out.ndjson", node.folder / "letters.ndjson"
    node.submit(kept + """
name: mixed
cycle: {records: 500}
sources: {mixed: {file: {path: mixed.ndjson, format: json}}}
stages: {all: {from: mixed, select: {id: id, n: n}}}
sinks:
  out: {from: all, file: {path: out.ndjson, format: json}}
  letters: {from: dead_letter, file: {path: letters.ndjson, format: json}}
""")
    size, kills = lambda: letters.stat().st_size if letters.exists() else 0, 0
    while not finished(json.loads(node.job("status", "mixed", "--json"))):
        # Somewhere behind where the last life got to: in a replay, or in new records.
        wanted, deadline = size() + draw.randrange(1, 60_000), time.monotonic() + draw.random() * 2
        while size() < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        node.end(signal.SIGKILL)
        kills += 1
        node.start()
    assert kills > 3, "it was over before it was killed"
    assert [json.loads(line) for line in open(out, encoding="utf-8")] == good
    said = [json.loads(line) for line in open(letters, encoding="utf-8")]
    assert [it["record"].rstrip("\n") for it in said] == [text for _, text in bad]
    assert all(it["reason"] and re.search(rf"\b{line}\b", it["position"]) for it, (line, _) in zip(said, bad))
    node.end(signal.SIGTERM)
