"""Keys that leave memory and come back: results are those of a job whose keys stay."""

import json
import time

STAGES = """
nth: {{from: flights, key: [tailnum], window: {{count: {{size: 20, every: 1}}}}, aggregate: {{n: count(*), mean: avg(dep_delay), far: max(distance), id: last(id)}}{more}}}
seldom: {{from: flights, key: [dest], window: {{count: {{size: 100, every: 10}}}}, aggregate: {{n: count(*), tails: count(distinct tailnum), id: last(id)}}{more}}}
"""
SINKS = "nth seldom"
HEAD = "cycle: {records: 50}\ncheckpoint: {every: 10ms}"


def keys(ran):
    """How many keys of each stage had left in the end, and how often one was read back."""
    progress = json.loads(ran.stdout.splitlines()[-1])
    return {it["name"]: (it["expired_keys"], it["revived_keys"]) for it in progress["stages"]}


def test_a_ttl_changes_no_result(mill):
    stay = mill.results(STAGES.format(more=""), SINKS, head=HEAD)
    mill.write(STAGES.format(more=", ttl: 20ms"), SINKS, head=HEAD)
    ran = mill.run("--data", "job")
    assert {name: mill.rows(name) for name in SINKS.split()} == stay
    assert keys(ran)["nth"][1] > 100, keys(ran)


def test_a_killed_job_goes_on_with_keys_that_had_left(mill):
    stay = mill.results(STAGES.format(more=""), SINKS, head=HEAD)
    # No more of a state in memory than a part of this when it goes on.
    head = HEAD + "\nstate: {budget: 64MiB}"
    mill.write(STAGES.format(more=", ttl: 20ms"), SINKS, head=head)
    out, more, kills = mill.folder / "nth.ndjson", [], 0
    for life in range(1, 8):
        ran = mill.begin("run", "job.yaml", "--data", "job", "--quiet", *more)
        wanted = life * len(stay["nth"]) // 8 * 100
        while ran.poll() is None and not (out.exists() and out.stat().st_size > wanted):
            time.sleep(0.001)
        kills += ran.poll() is None
        ran.kill()
        ran.wait()
        more = ["--resume"]
    mill.run("--data", "job", "--resume")
    assert {name: mill.rows(name) for name in SINKS.split()} == stay
    assert kills > 4, kills


def test_a_ttl_is_refused_where_no_key_can_leave(mill):
    daily = "daily: {from: flights, key: [carrier], window: {tumbling: 1d}, aggregate: {n: count(*)}, ttl: 1h}"
    mill.write(daily, "daily", head=HEAD)
    said = mill.say("validate", "job.yaml", code=2)
    assert "no key of this stage can leave memory" in said and "a `count` window" in said, said
    mill.write(STAGES.format(more=", ttl: 1h"), SINKS)
    said = mill.say("validate", "job.yaml", code=2)
    assert "keys can leave memory only where they are saved" in said and "every: 10s" in said, said
    mill.write(STAGES.format(more=", ttl: 0s"), SINKS, head=HEAD)
    assert "it is zero" in mill.say("validate", "job.yaml", code=2)
