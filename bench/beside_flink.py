#!/usr/bin/env python3
"""Saves with a sync for each batch, and many windows over one input, in Tidemill and in Flink; writes a table.

    bench/beside_flink.py --list               what would be run
    bench/beside_flink.py --data FOLDER        both, two rounds
    bench/beside_flink.py --data FOLDER --workloads windows --rounds 1

`saves`: values of 1 KiB under random keys, 1,000 in a batch with one sync, into Tidemill's indexed backend and into
the RocksDB that Flink brings along; then both are opened again. `windows`: ten stages of sliding windows over one
input, beside the largest of them alone: memory of their states, and CPU time. The engines take turns. Raw results
are appended to bench/results/beside_flink.jsonl, one line a run; bench/results/beside_flink.md is of the last
session. Build first: cargo build --release --locked -p tidemill. What Flink needs: bench/peers/ENGINES.md.
"""

import argparse
import os
import shlex
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from cases import BENCH, ROOT
from run import PATIENCE, PATIENCE_BUILD, RESULTS, append, names, positive, run_once, shown

RAW = RESULTS / "beside_flink.jsonl"
WORKLOADS = ("saves", "windows")
FLINK = str(BENCH / "peers/flink/run.sh")
KEYS = (1_000, 100_000, 1_000_000)
STAGES = 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("bench-beside-flink"), help="a folder on the disk that is measured; emptied")
    parser.add_argument("--workloads", type=names(WORKLOADS), default=list(WORKLOADS), metavar="NAME,...")
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--seconds", type=positive, default=4, help="of saves (default 4)")
    parser.add_argument("--event-seconds", type=positive, default=40, help="of event time of the windows (default 40)")
    parser.add_argument("--per-second", type=positive, default=100_000, help="events in a second of event time (default 100,000)")
    parser.add_argument("--window-keys", type=positive, default=5_000)
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    return parser.parse_args()


def cases(asked):
    """What is run: the workload, its size, the engine, and command lines."""
    binary = os.environ.get("TIDEMILL_BENCH_BIN", str(ROOT / "target/release/tidemill-bench"))
    folder = asked.data.resolve()
    if "saves" in asked.workloads:
        for keys in KEYS:
            ours = [binary, "state", "--data", str(folder / "tidemill"), "--keys", str(keys), "--seconds", str(asked.seconds), "--json"]
            yield "saves", keys, "tidemill", [ours]
            yield "saves", keys, "flink rocksdb", [[FLINK, "saves", str(asked.seconds), f"keys={keys}", f"data={folder}"]]
    if "windows" in asked.workloads:
        keys, seconds, per_second = asked.window_keys, asked.event_seconds, asked.per_second
        ours = [binary, "windows", "--stages", str(STAGES), "--keys", str(keys), "--seconds", str(seconds), "--per-second", str(per_second), "--json"]
        yield "windows", STAGES, "tidemill", [ours]
        peer = [FLINK, "windows", str(seconds), f"stages={STAGES}", f"keys={keys}", f"per_second={per_second}"]
        yield "windows", STAGES, "flink heap", [[*peer, f"from={first}"] for first in (STAGES, 1)]


def measured(workload, engine, results):
    """What an engine did, in the same words for all."""
    if workload == "saves":
        [it] = results
        return {name: it[name] for name in ("throughput_per_s", "cpu_us_per_item", "open_ms")}
    if engine == "tidemill":
        [it] = results
        return {
            "one_state_mb": it["one_state_bytes"] / 1e6, "all_state_mb": it["shared_state_bytes"] / 1e6, "rows": it["shared_rows"],
            "one_cpu_us": it["one_cpu_s"] * 1e6 / it["events"], "all_cpu_us": it["shared_cpu_s"] * 1e6 / it["events"],
        }  # fmt: skip
    one, every = results
    return {
        "one_state_mb": one["state_bytes"] / 1e6, "all_state_mb": every["state_bytes"] / 1e6, "rows": every["rows"],
        "one_cpu_us": one["cpu_us_per_item"], "all_cpu_us": every["cpu_us_per_item"],
    }  # fmt: skip


def markdown(lines, asked, session):
    rounds = "one round" if asked.rounds == 1 else f"medians of {asked.rounds} rounds"
    out = ["# Saves and windows, beside Flink", "", f"Session {session}: {rounds}.", ""]
    if "saves" in asked.workloads:
        out += ["Values of 1 KiB saved under random keys, 1,000 in a batch with one sync; then opened again.", ""]
        out += ["| keys | store | saves a second | CPU µs a save | opening, ms |", "| --: | --- | --: | --: | --: |"]
        for keys in KEYS:
            for engine in ("tidemill", "flink rocksdb"):
                cells = [_cell(lines, ("saves", keys, engine), *it) for it in (("throughput_per_s", 0), ("cpu_us_per_item", 2), ("open_ms", 0))]
                out.append(f"| {keys:,} | {engine} | " + " | ".join(cells) + " |")
        out.append("")
    if "windows" in asked.workloads:
        events = asked.event_seconds * asked.per_second
        out += [f"{STAGES} stages of sliding windows of 1 to {STAGES} seconds, each second, over {events:,} events of {asked.window_keys:,} keys; and the largest alone.", ""]
        out += [f"| engine | state of one, MB | of {STAGES} | CPU of one, µs an event | of {STAGES} |", "| --- | --: | --: | --: | --: |"]
        for engine in ("tidemill", "flink heap"):
            fields = (("one_state_mb", 1), ("all_state_mb", 1), ("one_cpu_us", 2), ("all_cpu_us", 2))
            out.append(f"| {engine} | " + " | ".join(_cell(lines, ("windows", STAGES, engine), *it) for it in fields) + " |")
        out.append("")
    return "\n".join(out)


def _cell(lines, case, field, digits):
    found = [it[field] for it in lines if (it["workload"], it["size"], it["engine"]) == case and field in it]
    return f"{median(found):,.{digits}f}" if found else ""


def measure(workload, engine, commands, asked):
    """Runs an engine once; gives what it did, or why it failed."""
    results, record = [], {}
    for line in commands:
        shutil.rmtree(asked.data, ignore_errors=True)
        asked.data.mkdir(parents=True)
        found = run_once(line, 3 * PATIENCE)
        record.setdefault("commands", []).append(shown(line))
        if "failed" in found:
            return {**record, **found}
        results.append(found["result"])
    return {**record, **measured(workload, engine, results)}


def main():
    asked = arguments()
    if asked.list:
        for _, _, _, commands in cases(asked):
            print("\n".join(shlex.join(line) for line in commands))
        return
    if asked.data.exists():
        sys.exit(f"{asked.data}: there is something already; name a folder that is not there yet")
    RESULTS.mkdir(exist_ok=True)
    # So that no measured run begins with a build.
    asked.data.mkdir(parents=True)
    built = run_once([FLINK, "saves", "1", "keys=1000", f"data={asked.data.resolve()}"], PATIENCE_BUILD)
    if "failed" in built:
        sys.exit(f"flink: {built['failed']}")
    session = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = []
    for number in range(1, asked.rounds + 1):
        for workload, size, engine, commands in cases(asked):
            record = {"session": session, "round": number, "workload": workload, "size": size, "engine": engine}
            record |= measure(workload, engine, commands, asked)
            lines.append(record)
            append(RAW, record)
            told = {name: it for name, it in record.items() if name not in ("session", "commands")}
            print(record.get("failed") or told, file=sys.stderr)
    shutil.rmtree(asked.data, ignore_errors=True)
    table = markdown(lines, asked, session)
    (RESULTS / "beside_flink.md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
