#!/usr/bin/env python3
"""Runs Tidemill's broker and Apache Kafka in turn under the same client, and writes a table and a plot.

    bench/broker/run.py --list                       what would be run
    bench/broker/run.py                              everything, three rounds
    bench/broker/run.py --loads produce --partitions 16 --durability os --rounds 5

Brokers are pinned to one CPU and clients to another. Within a round the brokers take turns, each started
anew on an empty folder and warmed up; a run in which something else used the machine is repeated. Raw results
are appended to bench/results/broker.jsonl, one line a run; bench/results/broker.md, .json and .svg are of the
last session. Build first: cargo build --release --locked -p tidemill. The rest is installed on first use,
under $PEERS_HOME (default ~/.cache/peers); needs a JDK 17, Maven, cargo, go, a C compiler.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from cases import BROKERS, DURABILITY, LOADS, OURS, RECORD_BYTES, ROOT, cases, command
from machine import run, wait_for_quiet, warm_memory
from results import markdown, summarise

RESULTS = ROOT / "bench/results"
RAW = RESULTS / "broker.jsonl"
VENV = ROOT / "target/bench-venv"
# How often a run is repeated because others used the machine.
TRIES = 3
# Seconds after which a run is given up.
PATIENCE = 600


def listed(allowed):
    def parse(text):
        found = text.split(",")
        for it in found:
            if it not in allowed:
                raise argparse.ArgumentTypeError(f"unknown: {it}; there are {', '.join(allowed)}")
        return found

    return parse


def numbers(text):
    found = [int(it) for it in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", type=listed(BROKERS), default=list(BROKERS), metavar="NAME,...")
    parser.add_argument("--loads", type=listed(LOADS), default=list(LOADS), metavar="NAME,...")
    parser.add_argument("--durability", type=listed(DURABILITY), default=list(DURABILITY), metavar="NAME,...")
    parser.add_argument("--partitions", type=numbers, default=[1, 16, 1024], metavar="N,...")
    parser.add_argument("--partitions-latency", type=numbers, default=[1, 128], metavar="N,...")
    parser.add_argument("--records", type=int, default=4_000_000, help="of produce and consume (default 4,000,000)")
    parser.add_argument("--records-disk", type=int, default=1_000_000, help="the same when all is flushed (default 1,000,000)")
    parser.add_argument("--warmup-records", type=int, default=2_000_000, help="written and read before anything is measured")
    parser.add_argument("--seconds", type=int, default=20, help="of a latency run (default 20)")
    parser.add_argument("--busy-max", type=float, default=0.1, help="cores that others may use in a run that counts (default 0.1; the kernel's own threads are others)")
    parser.add_argument("--quiet-wait", type=int, default=30, help="seconds to wait for a quiet machine before a run (default 30)")
    parser.add_argument("--warm-memory", type=int, default=3, help="GiB that are touched before each run (default 3)")
    parser.add_argument("--broker-cpus", default="0")
    parser.add_argument("--client-cpus", default="1")
    parser.add_argument("--folder", type=Path, default=ROOT / "target/bench-broker", help="where the brokers' data is; emptied")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    parser.add_argument("--table", action="store_true", help="only write table and plot again, of the last session")
    return parser.parse_args()


def ensure_environment():
    """Python with what the harness needs, in an environment of its own; this script goes on in it."""
    python = VENV / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    wanted = [ROOT / "bench/requirements.txt", ROOT / "tests/clients/requirements.txt"]
    stamp, text = VENV / ".broker-requirements", "".join(it.read_text() for it in wanted)
    if not stamp.exists() or stamp.read_text() != text:
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *(word for it in wanted for word in ("-r", it))], check=True)
        stamp.write_text(text)
    if Path(sys.prefix) != VENV:
        os.execv(python, [str(python), *sys.argv])


def start(broker, durability, folder, cpus):
    import brokers

    brokers.Kafka.heap = "1g"
    shutil.rmtree(folder, ignore_errors=True)
    settings = dict(DURABILITY[durability][broker])
    return brokers.KINDS[broker](folder, settings, cpus).start()


def make_topic(broker, name, partitions):
    """Makes a topic and waits until all its partitions are served."""
    import brokers
    import wire
    from kafka.protocol.admin import CreateTopicsRequest

    with wire.Connection(broker.address, timeout=60) as connection:
        topics = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])]
        answer = connection.call(CreateTopicsRequest[5](topics=topics, timeout_ms=30_000, validate_only=False))
        assert answer.topics[0].error_code == 0, answer
        brokers.wait(lambda: wire.all_served(connection, name, partitions), 60, "the topic is served")


def stored_records(broker, name, partitions):
    import wire

    with wire.Connection(broker.address, timeout=60) as connection:
        return sum(wire.list_offset(connection, name, partition=i)[1] for i in range(partitions))


class Session:
    def __init__(self, asked):
        self.asked, self.name = asked, datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.topics = 0

    def round(self, number):
        for durability in self.asked.durability:
            for broker in self.asked.brokers:
                node = start(broker, durability, self.asked.folder / broker, self.asked.broker_cpus)
                try:
                    self.warm_up(node)
                    for case in self.cases():
                        if case.durability == durability:
                            self.measure(number, case, node)
                finally:
                    node.kill()
                    shutil.rmtree(self.asked.folder / broker, ignore_errors=True)

    def cases(self):
        return list(cases(self.asked.durability, self.asked.loads, self.asked.partitions, self.asked.partitions_latency))

    def records(self, case):
        return self.asked.records if case.durability == "os" else min(self.asked.records, self.asked.records_disk)

    def topic(self):
        self.topics += 1
        return f"bench-{self.topics}"

    def warm_up(self, node):
        """A JVM compiles what is hot; ours is asked the same."""
        from cases import Case

        name = self.topic()
        make_topic(node, name, 16)
        for load in ("produce", "consume"):
            line = command(Case("os", load, 16), node.address, name, self.asked.warmup_records, 1)
            found = run(line, node, self.asked.client_cpus, PATIENCE)
            if found.code:
                print(f"warm-up of {node.name}: {load}: {found.errors[-300:]}", file=sys.stderr)

    def measure(self, number, case, node):
        """Runs until the machine was quiet, at most TRIES times; appends a line for each."""
        for attempt in range(1, TRIES + 1):
            if case.load != "consume":
                self.last = self.topic()
                make_topic(node, self.last, case.partitions)
            elif "produce" not in self.asked.loads:
                sys.exit("consume reads what produce wrote: ask for both")
            line = command(case, node.address, self.last, self.records(case), self.asked.seconds)
            warm_memory(self.asked.warm_memory << 30)
            wait_for_quiet(self.asked.busy_max, self.asked.quiet_wait)
            found = run(line, node, self.asked.client_cpus, PATIENCE)
            record = {
                "session": self.name, "round": number, "attempt": attempt, "case": case.name, "broker": node.name,
                "load": case.load, "partitions": case.partitions, "durability": case.durability,
                "quiet": found.others_cores <= self.asked.busy_max, "others_cores": round(found.others_cores, 3), "wall_s": round(found.wall_s, 3),
                "broker_cpu_s": round(found.broker_cpu_s, 2), "client_cpu_s": round(found.client_cpu_s, 2), "rss_mb": node.rss_bytes() >> 20,
                "command": shown(line), **self.read(case, node, found),
            }  # fmt: skip
            with open(RAW, "a", encoding="utf-8") as raw:
                raw.write(json.dumps(record, ensure_ascii=False) + "\n")
            print(f"round {number}  {case.name:<20} {node.name:<9} {described(record)}", file=sys.stderr)
            if "failed" in record or record["quiet"]:
                return

    def read(self, case, node, found):
        """What a client said, checked; or why it `failed`."""
        if found.code:
            return {"failed": f"exit code {found.code}: {(found.errors or found.out).strip()[-300:]}"}
        if case.load.startswith("latency"):
            said = json.loads(found.out.strip().splitlines()[-1])
            return {name: value for name, value in said.items() if name != "failed"}
        # "400000000 bytes), 4000000 delivered ... in 1240ms" or "bytes) consumed in 144ms"
        said = re.search(r"([0-9]+) messages (?:produced )?\([0-9]+ bytes\).*? in ([0-9]+)ms", found.out)
        if not said:
            return {"failed": f"no result in {found.out[-300:]}"}
        records, expected = int(said[1]), self.records(case)
        if records < expected or (case.load == "produce" and stored_records(node, self.last, case.partitions) != expected):
            return {"failed": f"{records} records, {expected} expected"}
        gigabytes = records * RECORD_BYTES / 1e9
        return {
            "records": records, "records_per_s": round(records * 1000 / max(1, int(said[2]))),
            "broker_cpu_s_per_gb": round(found.broker_cpu_s / gigabytes, 4), "client_cpu_s_per_gb": round(found.client_cpu_s / gigabytes, 4),
        }  # fmt: skip


def shown(line):
    """A command line without the places of this machine; many partitions are cut short."""
    text = shlex.join(it.replace(f"{ROOT}/", "").replace(str(Path.home()), "~") for it in line)
    return text if len(text) < 400 else text[:400] + " …"


def described(record):
    if "failed" in record:
        return f"failed: {record['failed']}"
    if record["load"].startswith("latency"):
        text = f"p50 {record['p50_ms']:.3f} ms  p99 {record['p99_ms']:.3f} ms  at {record['rate_per_s']:,.0f}/s"
    else:
        text = f"{record['records_per_s']:>10,}/s  broker {record['broker_cpu_s_per_gb']:.3f} CPU s/GB"
    return text if record["quiet"] else f"{text}  dropped: others used {record['others_cores']} cores"


def write_results(session, described_as):
    with open(RAW, encoding="utf-8") as raw:
        lines = [json.loads(line) for line in raw]
    session = session or lines[-1]["session"]
    summary = summarise(lines, session)
    table = markdown(summary, session, described_as)
    (RESULTS / "broker.md").write_text(table, encoding="utf-8")
    (RESULTS / "broker.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(table)
    subprocess.run([sys.executable, Path(__file__).with_name("plot.py"), RESULTS / "broker.svg"], input=json.dumps(summary), text=True, check=True)


def main():
    asked = arguments()
    ensure_environment()
    sys.path[:0] = [str(ROOT / "tests/clients"), str(ROOT / "tests")]
    described_as = (
        f"{RECORD_BYTES}-byte records; librdkafka with acks=all, linger 5 ms, batches of 64 KiB, no compression; latency at 10,000 records a second with linger 0. "
        f"Broker on CPU {asked.broker_cpus}, client on CPU {asked.client_cpus}.")
    if asked.table:
        return write_results(None, described_as)
    subprocess.run([ROOT / "bench/peers/clients/install.sh"], check=True, stdout=subprocess.DEVNULL)
    session = Session(asked)
    if asked.list:
        print(f"# {asked.rounds} rounds of, for {', '.join(asked.brokers)}:")
        for case in session.cases():
            print(f"{case.name}: {shown(command(case, 'BOOTSTRAP', 'TOPIC', session.records(case), asked.seconds))}")
        return
    os.environ.setdefault("TIDEMILL_BIN", str(ROOT / "target/release/tidemill"))
    if OURS in asked.brokers and not os.access(os.environ["TIDEMILL_BIN"], os.X_OK):
        sys.exit(f"{os.environ['TIDEMILL_BIN']}: not there; cargo build --release --locked -p tidemill")
    RESULTS.mkdir(exist_ok=True)
    for number in range(1, asked.rounds + 1):
        session.round(number)
    write_results(session.name, described_as)


if __name__ == "__main__":
    main()
