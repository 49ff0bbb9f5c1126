"""Jobs that a node runs: given to it by the command line, over its restarts and its death."""

import json
import random
import re
import signal
import time

import pytest

from mill import DAY, same
from served import FILL, KEEP, finished, saved, written

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
    same(db, node.records("ids"), "select id from flights where distance > 300")
    node.end(signal.SIGTERM)


def test_a_silence_makes_nothing_late(node):
    """Windows of a live stream go on after a while in which nothing came, at the start and later."""
    node.stream("create", "readings")
    node.submit("""
name: live
sources:
  readings: {stream: readings, format: json, schema: {ts: timestamp, n: bigint}, time: {field: ts}}
stages:
  seconds: {from: readings, window: {tumbling: 1s}, aggregate: {n: count(*)}, late: too_late}
sinks:
  out: {from: seconds, stream: seconds}
  none: {from: too_late, blackhole: {}}
""")
    for start in (0, 3, 6):
        # A source is idle after a second; its only sign is a cycle without records.
        cut = node.wait("live", lambda it: it["progress"])["progress"]["cycle_cut"]
        node.wait("live", lambda it, cut=cut: it["progress"]["cycle_cut"] > cut)
        lines = [json.dumps({"ts": 1_700_000_000_000 + start * 1_000 + i * 100, "n": i}) for i in range(30)]
        node.stream("produce", "readings", lines=lines)
        node.wait("live", lambda it, start=start: it["progress"]["sources"][0]["records"] == (start + 3) * 10)
    # The last second stays open until something comes that ends it.
    node.wait("live", lambda it: written(it) == 8)
    job = node.wait("live", lambda it: it["progress"])
    assert job["progress"]["stages"][0]["rows_side"] == 0
    assert [it["n"] for it in node.records("seconds")] == [10] * 8


def test_nobody_waits_until_the_time_of_a_long_cycle_is_up(node):
    """Looks, checkpoints, a new number of threads, and stops of a job with cycles of an hour."""
    long = """
name: long
cycle: 1h
checkpoint: {every: 100ms}
sources:
  readings: {stream: readings, format: json, schema: {n: bigint}}
stages:
  sums: {from: readings, key: [n], window: {count: {size: 9, every: 1}}, aggregate: {sum: sum(n)}}
sinks:
  out: {from: sums, stream: sums}
"""
    node.stream("create", "readings")
    node.submit(long)
    for done in (1, 2, 3):
        node.stream("produce", "readings", lines=['{"n": 7}'])
        node.wait("long", lambda it, done=done: it["progress"]["sources"][0]["records"] == done)
        if done == 1:
            assert "7" in node.command("state", "query", "long", "sums", "select sum from state")
        elif done == 2:
            node.checkpoint("create", "long")
        # The third is in a cycle that is open when the job is stopped.
        node.job("rescale", "long", "--threads", str(done % 2 + 1))
    node.job("cancel", "long")
    node.wait("long", lambda it: it["status"] == "cancelled")
    assert [it["sum"] for it in node.records("sums")] == [7, 14, 21]
    node.stream("produce", "readings", lines=['{"n": 7}'])
    node.submit(long.replace("name: long", "name: other").replace("stream: sums", "stream: others"))
    node.wait("other", lambda it: it["progress"]["sources"][0]["records"] == 4)
    node.end(signal.SIGTERM)


def test_a_killed_job_does_nothing_twice(node, inputs, db):
    """At most once: each slice is saved by itself, and what came after that, or was under way, is lost."""
    draw = random.Random(3)
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    often = KEEP.format(every="{time: 50ms, records: 200}")
    said = node.submit(often, code=2)
    assert "job.yaml:4" in said and "saved together, not by their records" in said
    node.submit("delivery: at-most-once" + often)
    went_on = 0
    for kill in range(6):
        asked = []

        def ready(it):
            """It has saved something, or has read all that was left: then there is nothing to save."""
            source = it["progress"]["sources"][0]
            asked.append(source["records"])
            all_read = asked[-2:] == [source["records"]] * 2 and source["lag_cycles"] == 0
            return saved(it) > 1 or (kill > 0 and all_read)

        node.wait("keep", ready)
        time.sleep(draw.random() * 0.2)
        before = node.length("counted")
        node.end(signal.SIGKILL)
        node.start()
        progress = node.wait("keep", lambda it: it["progress"])["progress"]
        assert progress["checkpoints"]["cycle"] > 0, "it began anew"
        went_on += before < count
    assert went_on > 1, "it was over before it was killed"
    node.wait("keep", lambda it: it["progress"]["sources"][0]["lag_cycles"] == 0)
    assert "checkpoint of cycle" in node.job("status", "keep")
    # What comes now finds the states of those that came before.
    kept = node.checkpoint("create", "keep", "--name", "quiet")
    assert "of cycle" in kept, "it is made, though nothing comes"
    node.job("cancel", "keep")
    node.wait("keep", lambda it: it["status"] == "cancelled")
    rows = node.records("counted")
    ids = [it["id"] for it in rows]
    assert len(set(ids)) == len(ids), "rows are written once"
    real = {id for (id,) in db.execute("select id from flights where distance > 300").fetchall()}
    assert set(ids) <= real
    assert len(ids) > count / 2, f"{len(ids)} of {count}"
    # A count never goes beyond what came of its carrier, and goes on from what was saved.
    most = {}
    for row in rows:
        most[row["carrier"]] = max(most.get(row["carrier"], 0), row["n"])
    came = dict(db.execute("select carrier, count(*) from flights where distance > 300 group by 1").fetchall())
    assert all(n <= came[carrier] for carrier, n in most.items())
    assert sum(most.values()) > len(rows) / 2, "the states were lost"


def test_a_killed_job_on_streams_goes_on_from_its_checkpoints(node, inputs, db):
    draw = random.Random(40)
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.submit(KEEP.format(every="50ms"))
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
    rows = node.records("counted")
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
        # So many, and so small cycles, that it is not over before who kills it has had a turn.
        for number in range(600_000):
            if draw.random() < 0.02:
                bad.append((number + 1, f'{{"id": {number}, "n": '))
                file.write(bad[-1][1] + "\n")
            else:
                good.append({"id": number, "n": number * 3})
                file.write(f'{{"id": {number}, "n": {number * 3}}}\n')
    out, letters = node.folder / "out.ndjson", node.folder / "letters.ndjson"
    node.submit(kept + """
name: mixed
cycle: {records: 50}
sources: {mixed: {file: {path: mixed.ndjson, format: json}}}
stages: {all: {from: mixed, select: {id: id, n: n}}}
sinks:
  out: {from: all, file: {path: out.ndjson, format: json}}
  letters: {from: dead_letter, file: {path: letters.ndjson, format: json}}
""")
    size, kills = lambda: letters.stat().st_size if letters.exists() else 0, 0
    while not finished(json.loads(node.job("status", "mixed", "--json"))):
        # Somewhere behind where the last life got to: in a replay, or in new records.
        wanted, deadline = size() + draw.randrange(1, 400_000), time.monotonic() + draw.random() * 2
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
