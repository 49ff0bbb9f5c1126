#!/usr/bin/env python3
"""Runs Tidemill and its peers in turn, and writes a table and a plot.

    bench/run.py --list                    what would be run
    bench/run.py                           everything, three rounds (about an hour)
    bench/run.py --workloads relay --engines tidemill,timely --sizes 100

The engines take turns within a round, so that a slow hour of the machine meets all of them. A run in
which something else used the machine is dropped and repeated. Raw results are appended to
bench/results/raw.jsonl, one line a run; bench/results/table.md and plot.svg are of the last session.
Build first: cargo build --release --locked -p tidemill. What the peers need: bench/peers/ENGINES.md.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from cases import BENCH, ENGINES, LEDGER, OURS, ROOT, WORKLOADS, cases, command, measures, text_path
from table import markdown, summarise

RESULTS = BENCH / "results"
RAW = RESULTS / "raw.jsonl"
# Cores that others may use during a run, and how often a run is repeated for that.
BUSY_MAX = 0.1
TRIES = 3
# Seconds after which a run is given up; the first of a peer may build it.
PATIENCE = 300
PATIENCE_BUILD = 3600


def names(allowed):
    def parse(text):
        found = text.split(",")
        for name in found:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"unknown: {name}; there are {', '.join(allowed)}")
        return found

    return parse


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--engines", type=names(ENGINES), default=list(ENGINES), metavar="NAME,...")
    parser.add_argument("--workloads", type=names(WORKLOADS), default=list(WORKLOADS), metavar="NAME,...")
    parser.add_argument("--sizes", type=lambda it: [positive(n) for n in it.split(",")], default=[50, 100, 400, 1024], metavar="BYTES,...")
    parser.add_argument("--seconds", type=positive, default=5)
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    parser.add_argument("--table", action="store_true", help="only write table and plot again, of the last session")
    return parser.parse_args()


def ensure_text():
    """The text of word count; the same file for all engines."""
    path = text_path()
    if not path.is_file() or not path.stat().st_size:
        print(f"writing {path}", file=sys.stderr)
        subprocess.run([sys.executable, BENCH / "peers/common/make_text.py", path, "32"], check=True, stdout=subprocess.DEVNULL)


def warm_up(engines, todo):
    """Builds the peers, so that no measured run begins with a build."""
    for engine in engines:
        case = next((it for it in todo if measures(engine, it)), None)
        if engine != OURS and case:
            print(f"{engine}: building, if needed", file=sys.stderr)
            result = run_once(command(engine, case, 1), PATIENCE_BUILD)
            if "failed" in result:
                print(f"{engine}: {result['failed']}", file=sys.stderr)


def run_once(line, patience):
    """Runs a command; gives the JSON of its last line under `result`, or why it `failed`."""
    # In a group of its own: what it started ends with it.
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, errors = process.communicate(timeout=patience)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return {"failed": f"no end after {patience} s"}
        raise
    try:
        if process.returncode == 0:
            return {"result": json.loads(out.strip().splitlines()[-1])}
    except (ValueError, IndexError):
        pass
    return {"failed": f"exit code {process.returncode}: {(errors or out).strip()[-300:]}"}


def wrong(case, result):
    """Why a result cannot be right, if it cannot."""
    if case.workload == "wordcount":
        described = text_path().with_name(text_path().name + ".json")
        expected = json.loads(described.read_text())["distinct"] if described.is_file() else None
        if expected is not None and result.get("distinct", expected) != expected:
            return f"{result['distinct']} distinct words, there are {expected}"
        if result.get("missing"):
            return f"{result['missing']} words are missing"
    return None


def measure(session, number, case, engine, seconds):
    """Runs until the machine was quiet, at most TRIES times; appends a line for each."""
    line = command(engine, case, seconds)
    for attempt in range(1, TRIES + 1):
        shutil.rmtree(LEDGER, ignore_errors=True)
        found = run_once(line, PATIENCE)
        if "result" in found and (reason := wrong(case, found["result"])):
            found = {"failed": reason}
        busy = found.get("result", {}).get("other_cores_busy", 0)
        record = {
            "session": session,
            "case": case.name,
            "engine": engine,
            "round": number,
            "attempt": attempt,
            "quiet": busy <= BUSY_MAX,
            "command": shown(line),
            **found,
        }
        append(RAW, record)
        print(f"round {number}  {case.name:<16} {engine:<10} {describe(record)}", file=sys.stderr)
        if "failed" in record or record["quiet"]:
            return


def append(raw, record):
    """Keeps what a run did, as one line of JSON."""
    with open(raw, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(record, ensure_ascii=False) + "\n")


def shown(line):
    """A command line without the places of this machine."""
    return shlex.join(it.replace(f"{ROOT}/", "").replace(str(Path.home()), "~") for it in line)


def describe(record):
    if "failed" in record:
        return f"failed: {record['failed']}"
    it = record["result"]
    text = f"{it['throughput_per_s']:>12,.0f}/s  {it['cpu_us_per_item']:.4f} µs"
    return text if record["quiet"] else f"{text}  dropped: others used {it['other_cores_busy']} cores"


def plot(summary):
    """Draws the bars, with matplotlib from an environment of its own."""
    venv = ROOT / "target/bench-venv"
    python = venv / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    packages = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", BENCH / "requirements.txt"]
    subprocess.run([python, *packages], check=True)
    subprocess.run([python, BENCH / "plot.py", RESULTS / "plot.svg"], input=json.dumps(summary), text=True, check=True)


def write_results(session):
    with open(RAW, encoding="utf-8") as raw:
        lines = [json.loads(line) for line in raw]
    session = session or lines[-1]["session"]
    summary = summarise(lines, session)
    table = markdown(summary, session)
    (RESULTS / "table.md").write_text(table, encoding="utf-8")
    print(table)
    plot(summary)


def main():
    asked = arguments()
    todo = list(cases(asked.workloads, asked.sizes))
    if asked.list:
        print(f"# {asked.rounds} rounds of:")
        for case in todo:
            for engine in (it for it in asked.engines if measures(it, case)):
                print(shlex.join(command(engine, case, asked.seconds)))
        return
    if asked.table:
        write_results(None)
        return
    ours = command(OURS, todo[0], asked.seconds)[0]
    if OURS in asked.engines and not os.access(ours, os.X_OK):
        sys.exit(f"{ours}: not there; cargo build --release --locked -p tidemill")
    RESULTS.mkdir(exist_ok=True)
    ensure_text()
    warm_up(asked.engines, todo)
    session = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    for number in range(1, asked.rounds + 1):
        for case in todo:
            for engine in (it for it in asked.engines if measures(it, case)):
                measure(session, number, case, engine, asked.seconds)
    write_results(session)


if __name__ == "__main__":
    main()
