"""Jobs that go on while most of their state is still in a checkpoint, and read single keys of it."""

import json
import time

import pytest

# Keys of each kind come again after so many rows: slices of two megabytes, as smaller ones are read at once.
STAGES = """
keyed: {from: flights, select: {id: id, k: "id * 7919 % 40000", t: "'key ' || (id * 7919 % 40000)", tail: tailnum, delay: dep_delay}}
whole: {from: keyed, key: [k], window: {global: {}}, aggregate: {n: count(*), first: min(id), last: last(tail), mean: avg(delay), spread: var_samp(delay)}}
text: {from: keyed, key: [t], window: {global: {}}, aggregate: {n: count(*), last: last(tail), ids: count(distinct id)}}
both: {from: keyed, key: [t, k], window: {global: {}}, aggregate: {n: count(*), last: max(id), mean: avg(delay)}}
"""
SINKS = "keyed whole text both"
SLICES = "slices: 2\n"
# Cycles of few rows: a slice of which a quarter is wanted is read as a whole.
HEAD = "cycle: {records: 4}\n"


def read_alone(ran):
    """How many keys of each stage were read while the rest of their slices was not."""
    progress = json.loads(ran.stdout.splitlines()[-1])
    return {it["name"]: it["read_keys"] for it in progress["stages"]}


@pytest.mark.parametrize("recovery", ["lazy", "prefetch"])
def test_a_killed_job_reads_the_keys_that_it_needs(mill, recovery):
    undisturbed = mill.results(STAGES, SINKS, head=SLICES)
    out = mill.folder / "keyed.ndjson"
    size = out.stat().st_size
    out.unlink()
    mill.write(STAGES, SINKS, head=SLICES + HEAD + f"checkpoint: {{every: 100ms, recovery: {recovery}}}")
    more, kills = [], 0
    # Late enough that keys come again.
    for tenth in (7, 8, 9):
        ran = mill.begin("run", "job.yaml", "--data", "job", "--quiet", *more)
        while ran.poll() is None and not (out.exists() and out.stat().st_size > tenth * size // 10):
            time.sleep(0.001)
        kills += ran.poll() is None
        ran.kill()
        ran.wait()
        more = ["--resume"]
    ran = mill.run("--data", "job", "--resume")
    assert {name: mill.rows(name) for name in SINKS.split()} == undisturbed
    assert kills == 3
    if recovery == "lazy":
        alone = read_alone(ran)
        assert all(alone[stage] > 0 for stage in ("whole", "text", "both")), alone
