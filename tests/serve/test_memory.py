"""Fault row 26: a node that may have little memory, and a job that would have more."""

import json
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from node import binary, clean_environment
from waiting import wait

# What a process may have of memory of its own beside what it has when it is ready: stacks and buffers too.
MORE_BYTES = 512 << 20
# Each line is a key of its own with so much text, of which the state keeps five copies: 660 MB.
LINES, TEXT_BYTES = 44_000, 3_000

GROWS = """
name: grows
parallelism: 1
slices: 4
cycle: {records: 500}
sources: {lines: {file: {path: "LINES", format: json}}}
stages:
  by:
    from: lines
    key: [k]
    window: {global: {}}
    aggregate: {most: max(text), least: min(text), first: first(text), last: last(text), upper: max(upper(text))}
  some: {from: by, where: k % 100 = 0}
sinks: {out: {from: some, file: {path: "OUT", format: json}}}
checkpoint: {every: 200ms}
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "lines.ndjson"
    with open(path, "w") as out:
        for key in range(LINES):
            out.write(f'{{"k": {key}, "text": "{str(key).ljust(TEXT_BYTES, "x")}"}}\n')
    return path


def limited(node):
    """From now on it is refused more memory than that, and ends if it cannot do without."""
    status = Path(f"/proc/{node.process.pid}/status").read_text().splitlines()
    data = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
    resource.prlimit(node.process.pid, resource.RLIMIT_DATA, (data + MORE_BYTES, data + MORE_BYTES))


def submit(node, text):
    assert node.post("/jobs", json.dumps({"job": text})).status == 201


def job(node, name):
    return node.get(f"/jobs/{name}").json()


def test_row_26_a_job_reaches_its_budget_before_its_node_has_no_memory_left(own, lines, tmp_path):
    """The state would be ten times the budget; the node, and another job, go on."""
    node = own().start()
    limited(node)
    node.create("events")
    node.append("events", [{"n": 1}])
    submit(node, 'name: other\nsources: {e: {stream: events, format: json}}\nsinks: {out: {from: e, file: {path: out.ndjson, format: json}}}\n')
    text = GROWS.replace("LINES", str(lines)).replace("OUT", str(tmp_path / "out.ndjson"))
    submit(node, text + "state: {budget: 64MiB}\n")
    wait(lambda: job(node, "grows")["status"] == "failed", 120, "the budget")
    said = job(node, "grows")["message"]
    assert "`by`" in said and "budget" in said and "64" in said, said
    node.append("events", [{"n": 2}])
    wait(lambda: job(node, "other")["progress"]["sinks"][0]["rows"] == 2, 20, "the other job")
    assert node.rss_bytes() < MORE_BYTES
    assert node.stop()[0] == 0


def test_row_26_a_job_whose_node_had_no_memory_left_goes_on_as_if_nothing_had_been(own, lines, tmp_path):
    """No budget: the process ends. With more memory it goes on, and every row is there once."""
    plain = tmp_path / "plain.ndjson"
    undisturbed = tmp_path / "undisturbed.yaml"
    undisturbed.write_text(GROWS.replace("LINES", str(lines)).replace("OUT", str(plain)))
    done = subprocess.run([binary(), "run", str(undisturbed)], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=clean_environment())
    assert done.returncode == 0, done.stderr
    node = own().start()
    limited(node)
    out = tmp_path / "out.ndjson"
    submit(node, GROWS.replace("LINES", str(lines)).replace("OUT", str(out)))
    assert node.process.wait(120) == -signal.SIGABRT
    assert "memory allocation" in node.said()
    node.start()
    # It is ready before its jobs have been started.
    wait(lambda: job(node, "grows")["status"] not in ("running", "waiting"), 300, "its end")
    assert job(node, "grows")["status"] == "finished", job(node, "grows")
    assert out.read_bytes() == plain.read_bytes()
    assert node.stop()[0] == 0
