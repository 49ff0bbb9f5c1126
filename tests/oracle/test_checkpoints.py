"""Checkpoints that are kept: made, listed, looked at, gone on from, deleted; with the command line."""

import json
import signal
import time

from mill import same
from served import FILL, KEEP, finished
from test_runs import INPUTS, SINKS, STAGES

# Only those that are asked for.
KEPT = KEEP.format(every="1h")
ALL = "select id from flights where distance > 300"


def listed(node, job="keep"):
    return json.loads(node.checkpoint("list", job, "--json"))["checkpoints"]


def cancel(node, job="keep"):
    node.job("cancel", job)
    node.wait(job, lambda it: it["status"] == "cancelled")


def test_a_job_goes_on_from_a_checkpoint_that_was_kept(node, inputs, db):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.submit(KEPT)
    assert "no complete checkpoint yet" in node.checkpoint("list", "keep")
    node.wait("keep", lambda it: it["progress"]["cycle_committed"] > 3)
    assert "checkpoint 1 of cycle" in node.checkpoint("create", "keep", "--name", "before the change")
    assert "checkpoint 2 of cycle" in node.checkpoint("create", "keep")
    first, second = listed(node)
    assert (first["number"], first["kept"], first["newest"]) == (1, "before the change", False)
    assert (second["number"], second["kept"], second["newest"]) == (2, "", True)
    assert 0 < first["cycle"] < second["cycle"] and first["bytes"] > 0
    assert "before the change" in node.checkpoint("list", "keep")
    seen = json.loads(node.checkpoint("inspect", "keep", "1", "--json"))
    assert {it["name"] for it in seen["stages"]} == {"new", "nth"}
    assert all(it["bytes"] > 0 for it in seen["stages"])
    read = sum(it["position"] > 0 for it in seen["sources"])
    assert 0 < read <= len(seen["sources"]) == 3
    said = node.checkpoint("inspect", "keep", "1")
    assert "kept as before the change" in said and "the first by columns" in said
    assert "is running" in node.checkpoint("restore", "keep", "1", code=2)
    cancel(node)

    # What does not fit is refused with what differs, and what was there stays.
    job = node.folder / "changed.yaml"
    job.write_text(KEPT.replace("dedup: {on: [id]}", "dedup: {on: [carrier]}"), encoding="utf-8")
    said = node.checkpoint("restore", "keep", "1", "--file", str(job), code=2)
    assert "stage `new` does something else now" in said and "undo that change" in said
    said = node.checkpoint("restore", "keep", "1", "--file", "changed.yaml", "--set", "name=other", code=2)
    assert "the file is that of job `other`" in said
    assert "there is no checkpoint 9" in node.checkpoint("restore", "keep", "9", code=2)
    assert "there is no job `none`" in node.checkpoint("restore", "none", "1", code=2)

    # What fits goes on: here with one sink more, which gets what comes from then on.
    more = KEPT + "  more: {from: new, stream: more}\n"
    job.write_text(more, encoding="utf-8")
    assert "goes on from checkpoint 1" in node.checkpoint("restore", "keep", "1", "--file", str(job))
    began = node.wait("keep", lambda it: it["progress"])["progress"]
    assert began["checkpoints"]["cycle"] == first["cycle"]
    node.wait("keep", lambda _: node.length("counted") >= count)
    numbers = [it["number"] for it in listed(node)]
    assert numbers == [1, 2, 3], "what was restored is the newest"
    cancel(node)
    rows = node.records("counted")
    assert len(rows) == count
    same(db, [{"id": it["id"]} for it in rows], ALL)
    same(db, [{"carrier": it["carrier"], "n": it["n"]} for it in rows], """
        select carrier, row_number() over (partition by carrier) as n from flights where distance > 300""")
    new = {it["id"] for it in node.records("more")}
    assert 0 < len(new) < count and new < {it["id"] for it in rows}

    # Of a job that does not run the newest is kept; all can be deleted.
    assert "checkpoint 3 of cycle" in node.checkpoint("create", "keep", "--name", "last")
    assert "is not kept any more" in node.checkpoint("delete", "keep", "1")
    assert "there is no checkpoint 1" in node.checkpoint("delete", "keep", "1", code=2)
    node.checkpoint("delete", "keep", "2")
    assert [(it["number"], it["kept"]) for it in listed(node)] == [(3, "last")]
    assert "makes no checkpoints" in node.checkpoint("list", "fill", code=2)
    node.end(signal.SIGTERM)


def test_a_job_begins_anew_with_a_checkpoint_of_an_earlier_life(node, inputs, db):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.submit(KEPT)
    node.wait("keep", lambda it: it["progress"]["cycle_committed"] > 3)
    node.checkpoint("create", "keep")
    node.wait("keep", lambda _: node.length("counted") >= count)
    cancel(node)
    # A second life, from the start: it writes some of it once more.
    node.submit(KEPT)
    node.wait("keep", lambda _: node.length("counted") > count)
    cancel(node)
    written = node.length("counted")
    said = node.checkpoint("restore", "keep", "1", code=2)
    assert "of an earlier run" in said and "begin anew with it" in said
    # A third, with the state of the first: it goes on counting, and writes what comes after.
    assert "begins anew with checkpoint 1" in node.checkpoint("restore", "keep", "1", "--anew")
    began = node.wait("keep", lambda it: it["progress"])["progress"]["checkpoints"]["cycle"]
    assert began == listed(node)[0]["cycle"]
    known = sum(it["position"] for it in json.loads(node.checkpoint("inspect", "keep", "1", "--json"))["sources"])
    for _ in range(3):
        node.end(signal.SIGKILL)
        node.start()
    node.wait("keep", lambda _: node.length("counted") >= written + count - known)
    cancel(node)
    rows = [(it["carrier"], it["n"], it["id"]) for it in node.records("counted")]
    first, third = rows[:count], rows[written:]
    assert 0 < len(third) == count - known
    lowest = {}
    for carrier, n, _ in third:
        lowest[carrier] = min(n, lowest.get(carrier, n))
    assert sorted(third) == sorted(row for row in first if row[1] >= lowest.get(row[0], count + 1))
    node.end(signal.SIGTERM)


def test_a_kept_checkpoint_outlives_kills_of_its_node(node, inputs, db):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.submit(KEEP.format(every="30ms"))
    node.wait("keep", lambda it: it["progress"]["cycle_committed"] > 3)
    node.checkpoint("create", "keep", "--name", "first")
    kept = next(it for it in listed(node) if it["kept"])
    for _ in range(4):
        node.wait("keep", lambda it: it["progress"]["checkpoints"]["completed"] > 1 or node.length("counted") >= count)
        node.end(signal.SIGKILL)
        node.start()
        there = next(it for it in listed(node) if it["number"] == kept["number"])
        assert {**there, "newest": kept["newest"]} == kept
    node.wait("keep", lambda _: node.length("counted") >= count)
    cancel(node)
    node.checkpoint("restore", "keep", str(kept["number"]))
    node.wait("keep", lambda it: it["progress"]["sources"][0]["lag_cycles"] == 0 and it["progress"]["sources"][0]["records"] > 0)
    cancel(node)
    rows = node.records("counted")
    assert len(rows) == count, "nothing comes twice"
    same(db, [{"id": it["id"]} for it in rows], ALL)
    node.end(signal.SIGTERM)


def test_checkpoints_of_a_job_in_a_folder(mill):
    mill.write(STAGES, SINKS, INPUTS, "cycle: {records: 500}\ncheckpoint: {every: 10ms}")
    of = ("job.yaml", "--data", "job")

    def listed_here():
        return mill.ask("checkpoint", "list", *of)["checkpoints"]

    def written():
        return {name: (mill.folder / f"{name}.ndjson").read_bytes() for name in SINKS.split()}

    assert "no job with a ledger or checkpoints ran there" in mill.say("checkpoint", "list", *of, code=2)
    mill.run("--data", "undisturbed")
    undisturbed = written()
    log = mill.folder / "job" / "checkpoints" / "0000000000000001.data"
    more, found = [], []
    for life in range(1, 20):
        # More is written in each life, until a checkpoint is complete in one.
        wanted = (log.stat().st_size if log.exists() else 0) + life * 100_000
        ran = mill.begin("run", *of, "--quiet", *more)
        while ran.poll() is None and not (log.exists() and log.stat().st_size > wanted):
            time.sleep(0.001)
        ran.kill()
        assert ran.wait() == -signal.SIGKILL, "it was over before it was killed"
        more, found = ["--resume"], listed_here()
        if found:
            break
    [newest] = found
    assert newest["newest"] and newest["kept"] is None
    number = str(newest["number"])
    said = mill.say("checkpoint", "create", *of, "--name", "here")
    assert f"checkpoint {number} of cycle {newest['cycle']} is kept" in said
    assert "kept as here" in mill.say("checkpoint", "inspect", *of, number)
    mill.run("--data", "job", "--resume")
    assert written() == undisturbed
    # Again from there, to the end: what is in the files stays.
    assert "there is no checkpoint 777" in mill.say("run", *of, "--resume", "--checkpoint", "777", code=2)
    mill.run("--data", "job", "--resume", "--checkpoint", number)
    assert written() == undisturbed
    mill.say("checkpoint", "delete", *of, number)
    left = [it["number"] for it in listed_here()]
    assert int(number) not in left and len(left) == 1


def test_what_came_before_a_silence_is_in_a_checkpoint(node, inputs):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    node.submit(KEEP.format(every="100ms"))

    def all_is_saved(job):
        progress = job["progress"]
        if not progress or not sum(it["records"] for it in progress["sources"]) == node.length("flights"):
            return False
        return progress["checkpoints"]["cycle"] == progress["cycle_committed"] == progress["cycle_cut"]

    saved = node.wait("keep", all_is_saved)["progress"]["checkpoints"]
    # And no more for nothing: each question takes a tenth of a second or so. Who reads a streamlet says once, in a
    # cycle of its own or in that of another, that nothing came for a second; there are three.
    cycles = {json.loads(node.job("status", "keep", "--json"))["progress"]["checkpoints"]["cycle"] for _ in range(20)}
    assert cycles <= set(range(saved["cycle"], saved["cycle"] + 1 + 3))
