"""Jobs over a stream that are resumed: with what they found in it when they began, and only if what they do again is what
they did."""

import json
import signal

JOB = """
name: m
delivery: {delivery}
checkpoint: {{every: 1h}}
sources:
  s: {{stream: in, format: json, schema: {{k: text, ts: bigint}}, time: {{field: ts, lateness: {lateness}}}}}
stages:
  b: {{from: s, where: k <> 'a'}}
  {name}: {{from: b, key: [k], window: {{tumbling: {size}}}, aggregate: {{n: count(*)}}}}
sinks:
  out: {{from: {name}, file: {{path: out.ndjson, format: json}}}}
"""
AS_IT_WAS = {"delivery": "exactly-once", "lateness": "0s", "size": "1m", "name": "w"}


def caught_up(count):
    def is_so(job):
        assert job["status"] == "running", job
        progress = job["progress"]
        return sum(it["records"] for it in progress["sources"]) >= count and progress["cycle_committed"] == progress["cycle_cut"]

    return is_so


def produce(node, records):
    node.stream("produce", "in", lines=[json.dumps(it) for it in records])


def began(node, key):
    """A job that has a checkpoint of three records, and did twelve more, of three minutes, behind it."""
    node.stream("create", "in")
    node.submit(JOB.format(**AS_IT_WAS))
    produce(node, [{"k": key, "ts": i * 15_000} for i in range(3)])
    node.wait("m", lambda it: it["progress"] and caught_up(3)(it))
    node.checkpoint("create", "m")
    produce(node, [{"k": "b", "ts": i * 15_000} for i in range(3, 15)])
    node.wait("m", caught_up(15))
    node.job("cancel", "m")
    node.wait("m", lambda it: it["status"] == "cancelled")


def resumed(node, code=0, **changes):
    (node.folder / "job.yaml").write_text(JOB.format(**AS_IT_WAS | changes), encoding="utf-8")
    return node.job("submit", "job.yaml", "--resume", code=code)


def counted(node):
    rows = [json.loads(it) for it in (node.folder / "out.ndjson").read_text(encoding="utf-8").splitlines()]
    return [(it["window_start"][14:16], it["n"]) for it in rows]


def test_what_is_done_again_is_done_as_it_was_or_refused(node):
    began(node, "b")
    before = counted(node)
    for changes, said in [
        ({"lateness": "1h"}, "source `s` is read otherwise now: json, event time `ts` with a lateness of 1h"),
        ({"size": "2m"}, "stage `w` does something else now"),
        ({"name": "v"}, "the job has no stage `w` any more"),
        ({"delivery": "at-most-once"}, "was done under the delivery `exactly-once`"),
    ]:
        assert said in resumed(node, code=2, **changes), changes
    assert counted(node) == before
    resumed(node)
    produce(node, [{"k": "b", "ts": 3_600_000}])
    node.wait("m", caught_up(1))
    node.wait("m", lambda _: len(counted(node)) == 4)
    assert counted(node) == [("00", 4), ("01", 4), ("02", 4), ("03", 3)]


def test_a_stage_whose_state_was_empty_has_rows_behind_the_checkpoint_all_the_same(node):
    began(node, "a")
    assert counted(node) == [("00", 1), ("01", 4), ("02", 4)]
    assert "stage `w` does something else now" in resumed(node, code=2, size="2m")
    said = resumed(node, code=2, name="v")
    assert "sink `out`, which holds rows of that, would get rows of stage `v`, which is new" in said
    resumed(node)
    produce(node, [{"k": "b", "ts": 3_600_000}])
    node.wait("m", lambda _: len(counted(node)) == 4)
    assert counted(node) == [("00", 1), ("01", 4), ("02", 4), ("03", 3)]


def test_a_job_that_goes_on_has_the_columns_that_it_began_with(node):
    node.stream("create", "in")
    node.stream("create", "typed")
    node.stream("produce", "typed", lines=['{"k":"a","v":1}'])
    node.submit("""
name: m
cycle: {records: 1}
checkpoint: {every: 100ms}
sources:
  s: {stream: in, format: json, schema: {k: text, n: bigint}}
  typed: {stream: typed, format: json}
stages:
  top: {from: s, top: {k: 3, by: n}}
  sums: {from: typed, key: [k], window: {count: {size: 100, every: 1}}, aggregate: {sum: sum(v)}}
sinks:
  out: {from: top, file: {path: top.ndjson, format: json}}
  csv: {from: s, file: {path: out.csv, format: csv}}
  summed: {from: sums, file: {path: sums.ndjson, format: json}}
""")
    # In another order than the job names them, with one more; then numbers that are no whole ones, and text.
    produce(node, [{"n": n, "k": "a", "more": 1} for n in range(5)])
    node.stream("produce", "typed", lines=['{"k":"a","v":1.5}', '{"k":"a","v":"x"}', '{"k":"a","v":2}'])
    node.wait("m", lambda it: it["progress"] and caught_up(7)(it))
    for how in (signal.SIGKILL, signal.SIGTERM):
        node.end(how)
        node.start()
        produce(node, [{"more": 1, "n": 7, "k": "b"}])
        node.stream("produce", "typed", lines=['{"k":"a","v":1}'])
        rows = {signal.SIGKILL: 6, signal.SIGTERM: 7}[how]
        node.wait("m", lambda it, rows=rows: it["status"] == "running" and len(lines(node, "out.csv")) == rows + 1)
        node.wait("m", lambda it, rows=rows: len(lines(node, "sums.ndjson")) == rows - 3)
    assert lines(node, "out.csv") == ["k,n", *(f"a,{n}" for n in range(5)), "b,7", "b,7"]
    assert [json.loads(it)["sum"] for it in lines(node, "sums.ndjson")] == [1, 3, 4, 5]


def lines(node, name):
    path = node.folder / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
