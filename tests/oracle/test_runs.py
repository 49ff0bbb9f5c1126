"""What must hold of whole runs: the same bytes whatever the threads and whatever fails, bad lines
set aside, a clean stop, refusals that name the place."""

import hashlib
import json
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from mill import SOURCES

# Every kind of state: windows, sessions, counts, a join, a table, the largest rows, seen keys.
STAGES = """
late: {from: flights, where: dep_delay > 15}
daily: {from: late, key: [carrier], window: {tumbling: 1d}, aggregate: {n: count(*), mean: avg(dep_delay), tails: approx_distinct(tailnum), half: median(dep_delay)}, late: too_late}
top: {from: daily, top: {k: 3, by: mean, per: [window_start]}}
sessions: {from: flights, key: [origin, dest], window: {session: 2h}, aggregate: {n: count(*), far: stddev_samp(air_time)}}
fives: {from: flights, key: [carrier], window: {count: {size: 5, every: 2}}, aggregate: {mean: avg(dep_delay), opening: first(id)}}
pairs: {join: {left: late, right: weather, on: [origin], within: 30m, kind: left}}
windy: {from: pairs, select: {id: id, temp: temp, gust: wind_gust}}
first: {from: flights, select: {id: id, carrier: carrier, dest: dest}, dedup: {on: [carrier, dest]}}
named: {join: {left: first, table: airlines, on: [carrier], kind: left}}
spread: {from: flights, where: distance > 900, select: {id: id, origin: origin}, partition: random}
mixed: {from: fives, where: mean > 1, partition: random}
whole: {from: flights, window: {global: {}}, aggregate: {n: count(*), mean: avg(arr_delay), var: var_pop(arr_delay)}}
"""
SINKS = "top sessions fives windy named spread mixed whole too_late"
INPUTS = ("flights", "weather", "airlines")
HEAD = "cycle: {records: 1000}"
KEPT = {
    "ledger": HEAD,
    "checkpoints": HEAD + "\ncheckpoint: {every: 20ms}",
    "files": HEAD + "\ncheckpoint: {every: 100ms, backend: {files: {}}}",
}
"""What a job keeps to go on from."""


def digests(mill):
    return {name: hashlib.sha256((mill.folder / f"{name}.ndjson").read_bytes()).hexdigest() for name in SINKS.split()}


def clear(mill):
    for name in SINKS.split():
        (mill.folder / f"{name}.ndjson").unlink(missing_ok=True)


def test_the_same_bytes_whatever_the_threads(mill):
    mill.write(STAGES, SINKS, INPUTS, HEAD)
    expected = None
    for threads in (1, 2, 3, 2):
        clear(mill)
        mill.run("--set", f"parallelism={threads}")
        found = digests(mill)
        expected = expected or found
        assert found == expected, f"with {threads} threads"
    for name in SINKS.split():
        rows = mill.rows(name)
        assert rows or name == "too_late", f"{name} is empty and shows nothing"


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "stop"])
@pytest.mark.parametrize("kept", KEPT)
def test_the_same_bytes_after_interruptions(mill, how, seed, kept):
    mill.write(STAGES, SINKS, INPUTS, KEPT[kept])
    began = time.monotonic()
    mill.run("--data", "undisturbed")
    seconds = time.monotonic() - began
    expected = digests(mill)

    chance = random.Random(seed)
    times = 0
    while times == 0:
        clear(mill)
        shutil.rmtree(mill.folder / "interrupted", ignore_errors=True)
        times, _ = run_interrupted(mill, how, lambda: chance.uniform(0.02, 1) * seconds)
        # A run that was too quick to be interrupted begins anew with less time.
        seconds /= 2
    assert digests(mill) == expected, f"after {times} interruptions"


def test_a_killed_job_goes_on_from_its_checkpoints(mill):
    """Each life is shorter than a whole run: the job ends only because it goes on from where it was."""
    mill.write(STAGES, SINKS, INPUTS, KEPT["checkpoints"])
    began = time.monotonic()
    mill.run("--data", "undisturbed")
    seconds = time.monotonic() - began
    expected = digests(mill)
    chance = random.Random(7)
    clear(mill)
    times, summary = run_interrupted(mill, signal.SIGKILL, lambda: chance.uniform(0.2, 0.6) * seconds, most=60)
    assert digests(mill) == expected, f"after {times} kills"
    assert times > 1, "it was never killed"
    read = {it["name"]: it["records"] for it in summary["sources"]}
    lines = (mill.inputs / "flights.ndjson").read_bytes().count(b"\n")
    assert read["flights"] < lines, "the last life read everything again"


def run_interrupted(mill, how, patience, most=4):
    """Runs the job to its end, through some interruptions; returns how many there were, and the last run's summary."""
    times = runs = 0
    while True:
        more = ["--resume"] if runs else []
        runs += 1
        process = subprocess.Popen(
            mill.command("--json", "--data", "interrupted", *more), cwd=mill.folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            # After some interruptions the job is left in peace, so that the test ends.
            output, _ = process.communicate(timeout=patience() if times < most else 60)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
            output, _ = process.communicate(timeout=60)
            times += 1
            assert times <= most, f"run {runs} did not end"
            # A stop may come before the job listens, or when it has ended already.
            assert process.returncode in (-how, 0, 130), f"run {runs}: exit {process.returncode}\n{output}"
            continue
        assert process.returncode == 0, f"run {runs}: exit {process.returncode}\n{output}"
        return times, json.loads(output.splitlines()[-1])


BAD = [
    b"this is no JSON",
    b'{"id":-1,"ts":1357035300000',
    b"[1,2,3]",
    b'{"id":-1,"ts":1357035300000,"carrier":"UA","distance":"far"}',
    b'{"id":-1,"ts":"the day after","carrier":"UA","distance":1}',
    b'{"id":-1,"ts":9223372036854775,"carrier":"UA","distance":1}',
    b'{"id":-1,"ts":-9223372036854775,"carrier":"UA","distance":1}',
    b'{"id":-1,"ts":1357035300000,"carrier":"U\xff\xfe","distance":1}',
    b'"text"',
    b"}{",
]


def test_bad_lines_are_set_aside(mill):
    stages = """
far: {from: flights, where: distance > 1000, select: {id: id, carrier: carrier, distance: distance}}
counts: {from: flights, key: [carrier], window: {tumbling: 1d}, aggregate: {n: count(*), miles: sum(distance)}}
"""
    clean = mill.results(stages, "far counts")
    lines = (mill.inputs / "flights.ndjson").read_bytes().splitlines()
    places = sorted(random.Random(5).sample(range(20_000, len(lines)), len(BAD)))
    numbers = []
    for count, (place, bad) in enumerate(zip(places, BAD)):
        lines.insert(place + count, bad)
        numbers.append(place + count + 1)
    (mill.folder / "bad.ndjson").write_bytes(b"\n".join(lines) + b"\n")
    source = "flights: {file: {path: bad.ndjson, format: json}, time: {field: ts}}"
    mill.write(stages, "far counts dead_letter", [source])
    ran = mill.run()
    for name in ("far", "counts"):
        assert sorted(map(json.dumps, mill.rows(name))) == sorted(map(json.dumps, clean[name])), name
    letters = mill.rows("dead_letter")
    assert [it["record"].rstrip("\n") for it in letters] == [it.decode(errors="replace") for it in BAD]
    for letter, number in zip(letters, numbers):
        assert letter["reason"], letter
        assert re.search(rf"\b{number}\b", letter["position"]), (letter, number)
    summary = json.loads(ran.stdout.splitlines()[-1])
    assert summary["dead_letters"] == len(BAD), summary


# Each row of the seventh ids has no value for one of these expressions.
WITHOUT_VALUE = """
part: {{from: flights,{where} select: {{id: id, part: distance / (id % 7)}}}}
cast: {{from: flights,{where} select: {{id: id, number: "cast(case when id % 7 = 0 then tailnum else '1' end as bigint)"}}}}
sums: {{from: flights,{where} key: [carrier], window: {{tumbling: 1d}}, aggregate: {{n: count(*), parts: sum(distance / (id % 7)), last: last(id)}}}}
counts: {{from: flights,{where} key: [carrier], window: {{tumbling: 1d}}, aggregate: {{n: count(*)}}}}
most: {{from: flights,{where} top: {{k: 5, by: distance / (id % 7), per: [carrier]}}}}
"""


def test_rows_that_an_expression_has_no_value_for_are_set_aside(mill):
    # Shares its input and key with `sums`, and counts every row: it must not share its windows.
    sinks = "part cast sums most counts"
    every = mill.results(WITHOUT_VALUE.format(where=""), sinks + " dead_letter")
    others = mill.results(WITHOUT_VALUE.format(where=" where: id % 7 <> 0,"), sinks)
    for name in ("part", "sums", "most"):
        assert every[name] == others[name] != [], name
    # Null can be cast.
    assert [it for it in every["cast"] if it["number"] is not None] == others["cast"] != []
    flights = [json.loads(it) for it in (mill.inputs / "flights.ndjson").read_bytes().splitlines()]
    assert sum(it["n"] for it in every["counts"]) == len(flights)
    refused = {it["id"] for it in flights if it["id"] % 7 == 0}
    # What cannot be cast is text that is there.
    there = {it["id"] for it in flights if it["id"] % 7 == 0 and it.get("tailnum") is not None}
    letters = every["dead_letter"]
    for stage, part, why, wanted in (
        ("part", "`select.part`", "Divide by zero error", refused),
        ("cast", "`select.number`", "Cast error", there),
        ("sums", "`distance / (id % 7)`", "Divide by zero error", refused),
        ("most", "`by`", "Divide by zero error", refused),
    ):
        of_stage = [it for it in letters if it["stage"] == stage]
        ids = [json.loads(it["record"])["id"] for it in of_stage]
        assert sorted(ids) == sorted(wanted), stage
        assert all(it["reason"].startswith(f"{part}: {why}") for it in of_stage), of_stage[0]
    assert {it["stage"] for it in letters} == {"part", "cast", "sums", "most"}
    for threads in ("1", "3"):
        (mill.folder / "dead_letter.ndjson").unlink()
        mill.write(WITHOUT_VALUE.format(where=""), sinks + " dead_letter")
        mill.run("--set", f"parallelism={threads}")
        assert {name: mill.rows(name) for name in every} == every, f"with {threads} threads"


def test_a_reader_that_has_enough_ends_the_job(mill):
    mill.write("out: {from: flights, where: distance > 0, select: {id: id, carrier: carrier}}", "")
    job = mill.folder / "job.yaml"
    job.write_text(job.read_text() + "  shown: {from: out, stdout: {format: json}}\n")
    process = subprocess.Popen(mill.command(), cwd=mill.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "carrier" in json.loads(process.stdout.readline())
    process.stdout.close()
    errors = process.stderr.read().decode()
    assert process.wait(timeout=30) == 0, errors
    assert "nobody reads standard output any more" in errors and "error" not in errors


def test_ctrl_c_leaves_whole_lines(mill):
    # The flights several times over: long enough to be stopped on the way.
    text = (mill.inputs / "flights.ndjson").read_bytes()
    with open(mill.folder / "long.ndjson", "wb") as file:
        for _ in range(20):
            file.write(text)
    source = "flights: {file: {path: long.ndjson, format: json}}"
    mill.write("out: {from: flights, where: distance > 0, select: {id: id, carrier: carrier}}", "out", [source], HEAD)
    job = mill.folder / "job.yaml"
    job.write_text(job.read_text() + "  shown: {from: out, stdout: {format: json}}\n")
    process = subprocess.Popen(
        mill.command("--quiet"), cwd=mill.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # The same rows come on standard output: when so many are there, it is under way.
    assert len(process.stdout.read(100_000)) == 100_000, "no output to stop"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    written = (mill.folder / "out.ndjson").read_bytes()
    assert written.endswith(b"\n")
    ids = [json.loads(line)["id"] for line in written.splitlines()]
    one = text.count(b"\n")
    assert 0 < len(ids) < 20 * one, "it was stopped on the way"
    # What is there is the input's beginning, without a gap.
    assert ids == [i % one for i in range(len(ids))]


def test_two_sources_of_one_name_of_file(mill):
    """A file may be read by two sources at once."""
    other = SOURCES["flights"].format(inputs=mill.inputs).replace("flights:", "again:", 1)
    rows = mill.out("out: {from: [flights, again], window: {global: {}}, aggregate: {n: count(*), kinds: count(distinct id)}}", ["flights", other])
    assert [row["n"] for row in rows] == [2 * row["kinds"] for row in rows] and len(rows) == 1


GOOD = """\
name: refused
sources:
  flights:
    file: {path: INPUTS/flights.ndjson, format: json}
    time: {field: ts}
stages:
  late:
    from: flights
    where: dep_delay > 15
  daily:
    from: late
    key: [carrier]
    window: {tumbling: 1d}
    aggregate: {n: count(*)}
sinks:
  out: {from: daily, file: {path: out.ndjson, format: json}}
"""


@pytest.mark.parametrize("old, new, place, says", [
    ("where: dep_delay > 15", "were: dep_delay > 15", "9:5", "where"),
    ("dep_delay > 15", "dep_dela > 15", "9:", "dep_delay"),
    ("dep_delay > 15", "dep_delay >", "9:", ""),
    ("dep_delay > 15", "carrier", "9:", ""),
    ("dep_delay > 15", "nosuch(dep_delay)", "9:", "nosuch"),
    ("from: late", "from: lat", "11:11", "late"),
    ("from: flights", "from: daily", "8:11", ""),
    ("flights.ndjson", "flight.ndjson", "4:", "flight.ndjson"),
    ("format: json}\n    time", "format: jsn}\n    time", "4:", "json"),
    ("[carrier]", "[carier]", "12:", "carrier"),
    ("count(*)", "cuont(*)", "14:", "count"),
    ("count(*)", "sum(carrier)", "14:", "carrier"),
    ("tumbling: 1d", "tumbling: 1x", "13:", "1x"),
    ("tumbling: 1d", "tumbling: 0s", "13:", ""),
    ("from: daily,", "from: dayly,", "16:", "daily"),
    ("field: ts", "field: tz", "5:", "ts"),
    ("name: refused", "name: [", "", ""),
    ("stages:", "stages:\n  late: {from: flights}", "", "late"),
])
def test_a_bad_job_is_refused_with_the_place(mill, old, new, place, says):
    job = GOOD.replace(old, new, 1).replace("INPUTS", str(mill.inputs))
    assert old in GOOD and new != old
    (mill.folder / "job.yaml").write_text(job, encoding="utf-8")
    ran = subprocess.run(mill.command(), cwd=mill.folder, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2, ran.stderr
    assert re.search(r"job\.yaml:\d+:\d+\b", ran.stderr), ran.stderr
    assert f"job.yaml:{place}" in ran.stderr and says in ran.stderr, ran.stderr
    assert not (mill.folder / "out.ndjson").exists(), "refused before anything starts"


def test_the_good_job_is_not_refused(mill):
    (mill.folder / "job.yaml").write_text(GOOD.replace("INPUTS", str(mill.inputs)), encoding="utf-8")
    mill.run()
    assert mill.rows()
