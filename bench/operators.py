#!/usr/bin/env python3
"""CPU time of stages with many keys, one or more builds of Tidemill in turn, and writes a table.

    bench/operators.py --list                                print the jobs and run none
    bench/operators.py --data FOLDER                         target/release/tidemill, three rounds
    bench/operators.py --data FOLDER --bin before=PATH --bin after=PATH

The records are in an Arrow file: a key as number and as text, uniform over --keys, a value, and event
time in which --per-second of them are a second. Each job reads all of them and throws its results away;
what it took is user and system time of the whole process, for each record that was read. The first row
is a job that only reads. bench/results/operators.md is of the last session.
Needs: python3 -m pip install -r bench/requirements.txt
"""

import argparse
import os
import resource
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from cases import ROOT
from run import PATIENCE, RESULTS, positive

EVENTS = "file: {path: events.arrow, format: arrow}, time: {field: t, lateness: 0s}"
DEVICES = "file: {path: devices.arrow, format: arrow}"
CALLS = "{n: count(*), mean: avg(v), most: max(v)}"
# Each: what it does, its stage, and the sources that it has besides `events`.
JOBS = {
    "read": ("nothing", None, {}),
    "number": ("tumbling windows of 1 s, by a number", f"{{from: events, key: [id], window: {{tumbling: 1s}}, aggregate: {CALLS}}}", {}),
    "text": ("the same by a text of 14 bytes", f"{{from: events, key: [key], window: {{tumbling: 1s}}, aggregate: {CALLS}}}", {}),
    "both": ("the same by both", f"{{from: events, key: [id, key], window: {{tumbling: 1s}}, aggregate: {CALLS}}}", {}),
    "sliding": ("sliding windows of 4 s, every second", f"{{from: events, key: [key], window: {{sliding: {{size: 4s, every: 1s}}}}, aggregate: {CALLS}}}", {}),
    "session": ("sessions with a gap of 1 s", f"{{from: events, key: [key], window: {{session: 1s}}, aggregate: {CALLS}}}", {}),
    "count": ("windows of 4 records", f"{{from: events, key: [key], window: {{count: {{size: 4, every: 4}}}}, aggregate: {CALLS}}}", {}),
    "dedup": ("the first of each key in a second", "{from: events, dedup: {on: [key], within: 1s}}", {}),
    "top": ("the largest of each key", "{from: events, top: {k: 1, by: v, per: [key]}}", {}),
    "table": ("join with a table of all keys", "{join: {left: events, table: devices, on: [key]}}", {"devices": DEVICES}),
    "stream": ("join with the same stream, within 100 ms", "{join: {left: events, right: others, on: [key], within: 100ms}}", {"others": EVENTS}),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("bench-operators"), help="a folder for the records and the jobs; kept")
    parser.add_argument("--bin", action="append", default=[], metavar="NAME=PATH", help="a build; may be said several times")
    parser.add_argument("--jobs", default=",".join(JOBS), help="names, with commas between them")
    parser.add_argument("--records", type=positive, default=8_000_000)
    parser.add_argument("--keys", type=positive, default=1_000_000)
    parser.add_argument("--per-second", type=positive, default=800_000)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--list", action="store_true", help="print the jobs and run none")
    asked = parser.parse_args()
    asked.jobs = asked.jobs.split(",")
    if unknown := [it for it in asked.jobs if it not in JOBS]:
        parser.error(f"no such job: {', '.join(unknown)}; there are {', '.join(JOBS)}")
    if wrong := [it for it in asked.bin if "=" not in it]:
        parser.error(f"--bin {wrong[0]}: say NAME=PATH")
    return asked


def descriptor(name):
    """The job file of a job."""
    _, stage, more = JOBS[name]
    sources = "".join(f"  {source}: {{{what}}}\n" for source, what in {"events": EVENTS, **more}.items())
    stages = f"stages:\n  it: {stage}\n" if stage else ""
    return f"name: {name}\ndelivery: at-least-once\nsources:\n{sources}{stages}sinks:\n  out: {{from: {'it' if stage else 'events'}, blackhole: {{}}}}\n"


def make_records(asked):
    import numpy
    import pyarrow

    def write(path, table):
        with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
            for batch in table.to_batches(max_chunksize=65_536):
                writer.write_batch(batch)

    def name(number):
        return f"device-{number:07d}"

    ids = numpy.random.default_rng(1).integers(0, asked.keys, asked.records)
    milliseconds = numpy.arange(asked.records, dtype="int64") * 1_000 // asked.per_second
    values = numpy.random.default_rng(2).random(asked.records)
    events = {"id": ids, "key": [name(it) for it in ids], "v": values, "t": milliseconds}
    write(asked.data / "events.arrow", pyarrow.table(events))
    every = range(asked.keys)
    devices = {"key": [name(it) for it in every], "site": [f"site-{it % 100}" for it in every]}
    write(asked.data / "devices.arrow", pyarrow.table(devices))


def measure(binary, job, asked):
    """Microseconds of CPU time for each record, of a whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [str(Path(binary).resolve()), "run", f"{job}.yaml", "--json"]
    done = subprocess.run(line, cwd=asked.data, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        sys.exit(f"{job}: exit code {done.returncode}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e6 / asked.records


def markdown(builds, found, asked, session):
    rounds = "one round" if asked.rounds == 1 else f"medians of {asked.rounds} rounds, builds in turn"
    out = [
        "# Stages with many keys",
        "",
        f"Session {session}: {asked.records:,} records over {asked.keys:,} keys, {rounds}.",
        "Microseconds of CPU time for each record of `events`, of the whole process; `bench/operators.py` says more.",
        "",
        "| job | what it does | " + " | ".join(builds) + " |",
        "| --- | --- |" + " --: |" * len(builds),
    ]
    for job in asked.jobs:
        cells = [f"{median(found[build, job]):.3f}" for build in builds]
        out.append(f"| {job} | {JOBS[job][0]} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def main():
    asked = arguments()
    if asked.list:
        print("\n".join(descriptor(job) for job in asked.jobs), end="")
        return
    default = os.environ.get("TIDEMILL_BIN", str(ROOT / "target/release/tidemill"))
    builds = dict(it.split("=", 1) for it in asked.bin) or {"tidemill": default}
    asked.data.mkdir(parents=True, exist_ok=True)
    make_records(asked)
    for job in asked.jobs:
        (asked.data / f"{job}.yaml").write_text(descriptor(job), encoding="utf-8")
    found = {(build, job): [] for build in builds for job in asked.jobs}
    for number in range(1, asked.rounds + 1):
        for job in asked.jobs:
            for build, binary in builds.items():
                took = measure(binary, job, asked)
                found[build, job].append(took)
                print(f"round {number}  {job:8} {build:12} {took:.3f} µs", flush=True)
    session = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    RESULTS.mkdir(exist_ok=True)
    table = markdown(builds, found, asked, session)
    (RESULTS / "operators.md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
