"""What is measured of brokers: each case is a load, a number of partitions and what an acknowledgement promises."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = "tidemill"
BROKERS = (OURS, "kafka")
LOADS = ("produce", "consume", "latency", "latency-java")
# `os`: written to the operating system. `disk`: on the disk before it is acknowledged.
DURABILITY = {
    "os": {OURS: {"fsync": "os"}, "kafka": {}},
    "disk": {OURS: {"fsync": "always"}, "kafka": {"log.flush.interval.messages": 1}},
}
RECORD_BYTES = 100
# Records a second of the latency loads.
RATE = 10_000


@dataclass(frozen=True)
class Case:
    durability: str
    load: str
    partitions: int

    @property
    def name(self):
        return f"{self.load} {self.partitions}p {self.durability}"


def cases(durabilities, loads, partitions, partitions_latency):
    """In the order in which one broker runs them: what `consume` reads, `produce` wrote just before."""
    for durability in durabilities:
        for count in partitions:
            yield from (Case(durability, load, count) for load in ("produce", "consume") if load in loads)
        for count in partitions_latency:
            yield from (Case(durability, load, count) for load in ("latency", "latency-java") if load in loads)


def home():
    return Path(os.environ.get("PEERS_HOME", Path.home() / ".cache/peers")) / "clients"


def command(case, bootstrap, topic, records, seconds):
    """The client's command line, the same for every broker."""
    rdkafka = [str(home() / "bin/rdkafka_performance"), "-b", bootstrap, "-t", topic, "-c", str(records), "-q"]
    if case.load == "produce":
        settings = ["linger.ms=5", "batch.size=65536", "queue.buffering.max.messages=500000"]
        return [*rdkafka, "-P", "-s", str(RECORD_BYTES), "-a", "-1", *(word for it in settings for word in ("-X", it))]
    if case.load == "consume":
        return [*rdkafka, "-C", "-o", "beginning", *(word for i in range(case.partitions) for word in ("-p", str(i)))]
    count, warmup = RATE * seconds, RATE * max(2, seconds // 5)
    if case.load == "latency":
        return [str(home() / "bin/latency"), "-bootstrap", bootstrap, "-topic", topic, "-partitions", str(case.partitions),
                "-size", str(RECORD_BYTES), "-count", str(count), "-warmup", str(warmup), "-rate", str(RATE)]
    libs = subprocess.run([ROOT / "bench/peers/kafka/install.sh"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    return ["java", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", f"-Dlog4j2.configurationFile={ROOT}/bench/peers/kafka/log4j2.xml", "-Dlevel=WARN",
            "-cp", f"{home()}/latency-java:{libs}/*", "Latency", bootstrap, topic, str(case.partitions), str(RECORD_BYTES), str(count), str(warmup), str(RATE)]
