"""Jobs that write streams and jobs that read them: every row once, whatever was killed."""

import random
import shutil
import signal
import time

import pytest

from mill import DAY, same
from test_runs import run_interrupted

# Rows of a file become records of a stream.
STORE = """
kept: {from: flights, where: distance > 300, select: {id: id, ts: ts, carrier: carrier, dep_delay: dep_delay}}
"""
SINK = "stored: {from: kept, stream: {name: flights, key: [carrier], streamlets: 3}}"
READ = "flights: {stream: flights, format: json, until: latest, time: {field: ts, lateness: 30d}}"
# The reading job has no ledger: it shares the folder, and with it the log, with the writing one.
HEAD = "delivery: at-least-once"


def write_store(mill, head="cycle: {records: 1000}"):
    path = mill.write(STORE, "", head=head)
    path.write_text(path.read_text(encoding="utf-8") + f"  {SINK}\n", encoding="utf-8")


def test_what_one_job_writes_another_reads(mill, db):
    write_store(mill)
    mill.run("--data", "node")
    mill.write(
        "daily: {from: flights, key: [carrier], window: {tumbling: 1d}, aggregate: {n: count(*), late: sum(dep_delay)}}",
        "daily", [READ], HEAD)
    mill.run("--data", "node")
    same(db, mill.rows("daily"), f"""
        select carrier, moment(floor_to(ts, {DAY})) as window_start, moment(floor_to(ts, {DAY}) + {DAY}) as window_end,
               count(*) as n, sum(dep_delay) as late
        from flights where distance > 300 group by all""")


def test_what_stands_beside_a_value(mill, db):
    write_store(mill)
    mill.run("--data", "node")
    meta = "flights: {stream: flights, format: json, until: latest, meta: {key: k, streamlet: part, offset: at}}"
    mill.write("seen: {from: flights, select: {id: id, k: k, part: part, at: at}}", "seen", [meta], HEAD)
    mill.run("--data", "node")
    rows = mill.rows("seen")
    same(db, [{"id": it["id"], "k": it["k"]} for it in rows], "select id, carrier as k from flights where distance > 300")
    places = {it["k"]: it["part"] for it in rows}
    assert all(it["part"] == places[it["k"]] for it in rows), "a key is in one streamlet"
    for part in set(places.values()):
        offsets = sorted(it["at"] for it in rows if it["part"] == part)
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "stop"])
def test_each_row_once_after_interruptions(mill, db, how, seed):
    write_store(mill)
    began = time.monotonic()
    mill.run("--data", "undisturbed")
    seconds = time.monotonic() - began
    chance = random.Random(seed)
    times = 0
    while times == 0:
        times = run_interrupted(mill, how, lambda: chance.uniform(0.02, 1) * seconds)
        if times == 0:
            seconds /= 2
            shutil.rmtree(mill.folder / "interrupted")
    mill.write("seen: {from: flights, select: {id: id}}", "seen", [READ], HEAD)
    mill.run("--data", "interrupted")
    same(db, mill.rows("seen"), "select id from flights where distance > 300")


def test_a_stream_needs_a_log(mill):
    mill.write("seen: {from: flights, select: {id: id}}", "seen", [READ])
    ran = mill.run(code=2)
    assert "node's log" in ran.stdout + ran.stderr
    ran = mill.run("--data", "node", code=2)
    assert "there is no stream `flights`" in ran.stdout + ran.stderr
