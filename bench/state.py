#!/usr/bin/env python3
"""Runs a job with much state in Tidemill and in Flink, with its heap and its RocksDB, and writes a table.

    bench/state.py --list                      what would be run
    bench/state.py --data FOLDER               10 million keys at 300,000 events a second, two rounds
    bench/state.py --data FOLDER --rate 0      as fast as they are taken

The job holds count, sum, least and most of each key: every key once, then random ones. Each engine runs
without checkpoints and with one every ten seconds, and goes on from the last one. The engines take turns;
Flink's heap has `--heap`, whatever `JAVA_OPTS` says.
Raw results are appended to bench/results/state.jsonl, one line a run; bench/results/state.md is of the
last session. Build first: cargo build --release --locked -p tidemill. What Flink needs: bench/peers/ENGINES.md.
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
from run import PATIENCE, PATIENCE_BUILD, RESULTS, append, positive, run_once, shown

RAW = RESULTS / "state.jsonl"
ENGINES = ("tidemill", "flink heap", "flink rocksdb")
EVERY = 10
FLINK = BENCH / "peers/flink/run.sh"
# Of Flink's heap, so that its collector has little to do.
KEYS_PER_GIB = 1_000_000
# More time for each key: all of them come before anything is measured.
KEYS_PER_SECOND = 50_000
# Columns of the table: title, field, digits.
COLUMNS = (
    ("events a second", "events_per_s", 0),
    ("longest 100,000 events, ms", "longest_ms", 0),
    ("p50 ms", "latency_p50_ms", 1),
    ("p99 ms", "latency_p99_ms", 1),
    ("CPU µs an event", "cpu_us_per_event", 2),
    ("a checkpoint, s", "checkpoint_s", 1),
    ("its bytes, MB", "checkpoint_mb", 0),
    ("first output again, s", "first_output_s", 2),
)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("bench-state"), help="a folder on the disk that is measured; emptied")
    parser.add_argument("--keys", type=positive, default=10_000_000)
    parser.add_argument("--rate", type=int, default=300_000, help="events a second; 0: as many as are taken")
    parser.add_argument("--seconds", type=positive, default=20)
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--heap", type=positive, metavar="GIB", help="of Flink's JVM (default: one for each million keys, and at most three quarters of the machine's memory)")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    asked = parser.parse_args()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    asked.heap = asked.heap or max(1, min(asked.keys // KEYS_PER_GIB, memory * 3 // 4))
    return asked


def commands(engine, asked):
    """The command lines that measure an engine: one of them, or without checkpoints and with them."""
    if engine == "tidemill":
        binary = os.environ.get("TIDEMILL_BENCH_BIN", str(ROOT / "target/release/tidemill-bench"))
        rate = ["--rate", str(asked.rate)] if asked.rate else []
        size = ["--keys", str(asked.keys), "--seconds", str(asked.seconds), "--every", f"{EVERY}s"]
        return [[binary, "checkpoint", "--data", str(asked.data / "tidemill"), *size, *rate, "--recovery", "lazy", "--json"]]
    line = ["env", f"JAVA_OPTS=-Xms{asked.heap}g -Xmx{asked.heap}g"]
    line += [str(FLINK), "aggregates", str(asked.seconds), f"backend={engine.split()[1]}", f"keys={asked.keys}"]
    line += [f"rate={asked.rate}", f"data={asked.data.resolve()}"]
    return [[*line, "interval=0"], [*line, f"interval={EVERY}"]]


def measured(engine, results):
    """What an engine did without checkpoints and with them, in the same words for all."""
    if engine == "tidemill":
        [it] = results
        more = {"checkpoint_s": it["last_took_ms"] / 1e3, "checkpoint_mb": it["last_bytes"] / 1e6}
        return it["without"], {**it["later"], **more, "first_output_s": it["first_output_ms"] / 1e3}
    for it in results:
        it["events_per_s"], it["cpu_us_per_event"] = it["throughput_per_s"], it["cpu_us_per_item"]
    without, with_them = results
    more = {"checkpoint_s": with_them["checkpoint_ms"] / 1e3, "checkpoint_mb": with_them["checkpoint_bytes"] / 1e6}
    return without, {**with_them, **more, "first_output_s": with_them["first_output_ms"] / 1e3}


def markdown(lines, asked, session):
    rate = f"{asked.rate:,} events a second" if asked.rate else "as many events as are taken"
    out = [
        "# State and checkpoints, beside Flink",
        "",
        f"Session {session}: {asked.keys:,} keys, {rate}, a checkpoint every {EVERY} s, {_rounds(asked.rounds)}.",
        "",
        "Latency is how far the stage is behind what was due, looked at every half millisecond. Tidemill goes on with",
        f"`recovery: lazy`; Flink's heap, of {asked.heap} GiB, reads all of its state first.",
        "",
        "| engine | checkpoints | " + " | ".join(title for title, _, _ in COLUMNS) + " |",
        "| --- | --- |" + " --: |" * len(COLUMNS),
    ]
    for engine in ENGINES:
        for which in ("without", "with"):
            runs = [it[which] for it in lines if it["engine"] == engine and which in it]
            cells = [_cell([it.get(field) for it in runs], digits) for _, field, digits in COLUMNS]
            out.append(f"| {engine} | {which} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def _rounds(rounds):
    return "one round" if rounds == 1 else f"medians of {rounds} rounds"


def _cell(values, digits):
    found = [it for it in values if it is not None]
    return f"{median(found):,.{digits}f}" if found else ""


def measure(engine, asked):
    """Runs an engine once; gives what it did, or why it failed."""
    results, record = [], {}
    patience = PATIENCE + 6 * asked.seconds + asked.keys // KEYS_PER_SECOND
    for line in commands(engine, asked):
        shutil.rmtree(asked.data, ignore_errors=True)
        asked.data.mkdir(parents=True)
        found = run_once(line, patience)
        record.setdefault("commands", []).append(shown(line))
        if "failed" in found:
            return {**record, **found}
        results.append(found["result"])
    without, with_them = measured(engine, results)
    return {**record, "without": without, "with": with_them}


def main():
    asked = arguments()
    if asked.list:
        for engine in ENGINES:
            for line in commands(engine, asked):
                print(shlex.join(line))
        return
    if asked.data.exists():
        sys.exit(f"{asked.data}: there is something already; name a folder that is not there yet")
    RESULTS.mkdir(exist_ok=True)
    # So that no measured run begins with a build.
    asked.data.mkdir(parents=True)
    built = run_once([str(FLINK), "aggregates", "1", "keys=1000", "rate=1000", "interval=0", f"data={asked.data.resolve()}"], PATIENCE_BUILD)
    if "failed" in built:
        sys.exit(f"flink: {built['failed']}")
    session = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = []
    for number in range(1, asked.rounds + 1):
        for engine in ENGINES:
            record = {"session": session, "round": number, "engine": engine, **measure(engine, asked)}
            lines.append(record)
            append(RAW, record)
            print(f"round {number}  {engine:<14} {record.get('failed') or record['with']}", file=sys.stderr)
    shutil.rmtree(asked.data, ignore_errors=True)
    table = markdown(lines, asked, session)
    (RESULTS / "state.md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
