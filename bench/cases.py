"""What is measured: each case is one workload with its size, and a command for each engine."""

import os
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
OURS = "tidemill"
# No engine: what messages between two processes over TCP cost by themselves.
SOCKETS = "sockets"
ENGINES = (OURS, "flink", "storm", "hazelcast", "timely", SOCKETS)
WORKLOADS = ("relay", "relay-tcp", "rate", "wordcount", "window")
# The folder of Tidemill's ledger, empty before each run.
LEDGER = ROOT / "target/bench-ledger"
# Messages a second of the workload `rate`.
RATE = 20_000
# Seconds before measuring: time for a JVM to compile what is hot; Timely needs none.
WARMUP = {"flink": 4, "storm": 4, "hazelcast": 3, "timely": 1, SOCKETS: 1}
WARMUP_WINDOW = {"flink": 8, "storm": 8, "hazelcast": 8, "timely": 3}
REPEATS = {OURS: 4, "flink": 4, "storm": 2, "hazelcast": 3, "timely": 4}
# How an engine's stages are put into several processes, or talk as if they were.
TCP = {"flink": ["exchange=net"], "storm": ["workers=3"], "hazelcast": ["exchange=net"], "timely": ["exchange=tcp"], SOCKETS: []}


@dataclass(frozen=True)
class Case:
    workload: str
    size: int | None = None

    @property
    def name(self):
        return self.workload if self.size is None else f"{self.workload} {self.size} B"


def cases(workloads, sizes):
    """All cases, those of a workload side by side. The fixed rate is measured at 100 B only."""
    for workload in workloads:
        if workload in ("relay", "relay-tcp"):
            yield from (Case(workload, size) for size in sizes)
        else:
            yield Case(workload, 100 if workload == "rate" else None)


def measures(engine, case):
    return engine != SOCKETS or case.workload == "relay-tcp"


def text_path():
    home = os.environ.get("PEERS_HOME", str(Path.home() / ".cache/peers"))
    return Path(os.environ.get("PEERS_TEXT", f"{home}/text/corpus.txt"))


def command(engine, case, seconds):
    """The command line that measures `case` with `engine`; it prints one JSON line."""
    return _ours(case, seconds) if engine == OURS else _peer(engine, case, seconds)


def _ours(case, seconds):
    binary = os.environ.get("TIDEMILL_BENCH_BIN", str(ROOT / "target/release/tidemill-bench"))
    if case.workload == "wordcount":
        more = ["wordcount", "--text", str(text_path()), "--repeats", str(REPEATS[OURS])]
    elif case.workload == "window":
        # Exactly once, with its ledger; the peers run without checkpoints.
        more = ["window", "--seconds", str(seconds), "--data", str(LEDGER)]
    else:
        more = ["relay", "--message-bytes", str(case.size), "--seconds", str(seconds)]
        more += ["--exchange", "tcp"] if case.workload == "relay-tcp" else ["--exchange", "local"]
        more += ["--rate", str(RATE), "--cycle", "1ms"] if case.workload == "rate" else []
    return [binary, *more, "--json"]


def _peer(engine, case, seconds):
    run = str(BENCH / "peers" / engine / "run.sh")
    if case.workload == "wordcount":
        return [run, "wordcount", str(REPEATS[engine])]
    if case.workload == "window":
        return [run, "window", str(seconds), f"warmup={WARMUP_WINDOW[engine]}"]
    more = [f"warmup={WARMUP[engine]}"]
    if case.workload == "relay-tcp":
        more += TCP[engine]
    if case.workload == "rate":
        # Flink keeps a message for 100 ms by default; the others send at once.
        more += [f"rate={RATE}"] + (["buffer_timeout=1"] if engine == "flink" else [])
    return [run, "relay", str(case.size), str(seconds), *more]
