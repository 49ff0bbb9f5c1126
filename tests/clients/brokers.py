"""A broker as a process: Tidemill's node, or an Apache Kafka of one node, started and stopped alike.

Both keep their data in a folder and their address over a restart, so that clients find them again."""

import base64
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from waiting import wait

ROOT = Path(__file__).resolve().parents[2]
PEER = ROOT / "bench/peers/kafka"
# Seconds: a JVM that has to share two cores takes its time; ours must be there at once.
PATIENCE_START = {"kafka": 240, "tidemill": 20, "connect": 240, "mirror": 240}
# A node that was told to stop has to be gone after this.
PATIENCE_STOP = {"kafka": 60, "tidemill": 5, "connect": 120, "mirror": 120}


class Died(Exception):
    """The broker is not running though nobody stopped it."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def new_id():
    """A cluster's id, as Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "x")


class Broker:
    """One process; `settings` are options of `tidemill serve`, or properties of Kafka."""

    name = ""

    def __init__(self, folder, settings=None, cpus=None):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        self.log = self.folder / "broker.log"
        self.settings, self.cpus = dict(settings or {}), cpus
        self.process = None
        self.port = self.http_port = None

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        self.launch()
        wait(self.is_ready, PATIENCE_START[self.name], f"{self.name} ready")
        return self

    def launch(self):
        """Starts it and does not wait for it."""
        line = self.command()
        if self.cpus:
            line = ["taskset", "-c", self.cpus, *line]
        with open(self.log, "ab") as log:
            self.began = log.tell()
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=self.out_file(log), stderr=log, start_new_session=True)

    def out_file(self, log):
        return log

    def check(self):
        """Fails if the process has ended by itself."""
        if self.process.poll() is not None:
            raise Died(f"{self.name} ended with {self.process.returncode}: {self.last_lines()}")

    def last_lines(self, count=30):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-count:])

    def stop(self):
        """Asks it to end, as a service manager does; gives the seconds that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_STOP[self.name])
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return time.monotonic() - began

    def kill(self):
        """As a power button would end the process, but not the machine."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def restart(self):
        self.stop()
        return self.start()

    def pause(self):
        """Stops it where it stands: when this returns, none of its threads runs a step further."""
        self.process.send_signal(signal.SIGSTOP)
        wait(self.is_paused, 10, f"{self.name} stopped")

    def is_paused(self):
        """The signal reaches one thread, when that gets its turn, and stops the others then; who waits for the disk
        stops when it comes back."""
        states = set()
        for path in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # It may have ended.
                states.add(path.read_text().rsplit(")", 1)[1].split()[0])
        return "T" in states and states <= {"T", "D"}

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def rss_bytes(self):
        return self._status("VmRSS")

    def rss_peak_bytes(self):
        return self._status("VmHWM")

    def cpu_seconds(self):
        """Of all its threads so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _status(self, field):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise Died(f"{self.name} has no {field}")


class Tidemill(Broker):
    name = "tidemill"

    def command(self):
        binary = os.environ.get("TIDEMILL_BIN", str(ROOT / "target/debug/tidemill"))
        line = [binary, "serve", "--data", str(self.data)]
        line += ["--kafka-listen", f"127.0.0.1:{self.port or 0}", "--http-listen", f"127.0.0.1:{self.http_port or 0}"]
        for name, value in self.settings.items():
            line += [f"--{name}", str(value)]
        return line

    def out_file(self, log):
        self.out = self.folder / "ready.txt"
        return open(self.out, "wb")

    def longest_sync(self):
        """Seconds that no sync of a file has taken yet: the bound of the histogram that holds them all."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        buckets = re.findall(r'^tidemill_log_sync_seconds_bucket\{le="([^"]+)"\} (\d+)', text, re.MULTILINE)
        most = max(int(count) for _, count in buckets)
        assert most > 0, "nothing was synced"
        return min(float(bound) for bound, count in buckets if int(count) == most)

    def is_ready(self):
        self.check()
        for line in self.out.read_text().splitlines():
            if line.startswith("ready "):
                found = dict(part.split("=", 1) for part in line.split()[1:])
                self.port = int(found["kafka"].rsplit(":", 1)[1])
                self.http_port = int(found["http"].rsplit(":", 1)[1])
                return True
        return False


class Kafka(Broker):
    name = "kafka"
    libs = None
    heap = "512m"

    def __init__(self, *more, **named):
        super().__init__(*more, **named)
        self.cluster = new_id()

    @staticmethod
    def jars():
        if Kafka.libs is None:
            Kafka.libs = subprocess.run([PEER / "install.sh"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        return Kafka.libs

    def command(self):
        self.port = self.port or free_port()
        properties = self.folder / "server.properties"
        controller = free_port()
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties(controller).items()))
        java = [self._java(), "-cp", f"{self.jars()}/*", f"-Dlog4j2.configurationFile={PEER}/log4j2.xml"]
        if not (self.data / "meta.properties").exists():
            line = [*java, "-Dlevel=WARN", "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", "-t", self.cluster, "-c", str(properties)]
            subprocess.run(line, check=True, capture_output=True)
        return [*java, *self._machine(), "kafka.Kafka", str(properties)]

    def _machine(self):
        # What the distribution's own start script gives the JVM.
        machine = [f"-Xms{self.heap}", f"-Xmx{self.heap}", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        return [*machine, "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"]

    def _java(self):
        java = shutil.which("java")
        assert java, "Kafka needs a JDK 17"
        return java

    def _properties(self, controller):
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            **self.settings,
        }

    def is_ready(self):
        self.check()
        with open(self.log, "rb") as log:
            log.seek(self.began)
            return b"Kafka Server started" in log.read()

CONTROLLER = 100


class Member(Kafka):
    """One process of a cluster: its controller, or one of its brokers."""

    heap = "192m"

    def __init__(self, folder, node, cluster, controller, settings):
        super().__init__(folder, settings)
        self.node, self.cluster, self.controller = node, cluster, controller
        self.port = free_port()

    def _machine(self):
        # Three of them share two cores: one that compiles little and cleans up alone starts soonest.
        return [f"-Xmx{self.heap}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]

    def _properties(self, _):
        alone = {"controller.quorum.voters", "listeners", "advertised.listeners", "process.roles", "node.id"}
        found = {name: value for name, value in super()._properties(0).items() if name not in alone}
        if self.node == CONTROLLER:
            mine = {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{self.controller}"}
        else:
            mine = {"process.roles": "broker", "listeners": f"PLAINTEXT://{self.address}"}
        voters = f"{CONTROLLER}@127.0.0.1:{self.controller}"
        return {**found, "node.id": self.node, "controller.quorum.voters": voters, **mine}


class KafkaCluster:
    """An Apache Kafka of some brokers, numbered from 1, and a controller, each a process of its own."""

    def __init__(self, folder, brokers, copies=1):
        controller, cluster = free_port(), new_id()
        settings = {
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            # One that is killed is soon known to be gone.
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 300,
            # Half of the heap, if nobody said how much.
            "log.cleaner.dedupe.buffer.size": 16 << 20,
        }
        nodes = [CONTROLLER, *range(1, brokers + 1)]
        members = {it: Member(Path(folder) / f"node{it}", it, cluster, controller, settings) for it in nodes}
        self.controller, self.brokers = members.pop(CONTROLLER), members

    @property
    def address(self):
        return ",".join(it.address for it in self.brokers.values())

    def start(self):
        members = [self.controller, *self.brokers.values()]
        Kafka.jars()
        with ThreadPoolExecutor(len(members)) as each:
            list(each.map(Member.launch, members))
        for it in members:
            wait(it.is_ready, PATIENCE_START[it.name], f"node {it.node} ready")
        return self

    def check(self):
        for it in [self.controller, *self.brokers.values()]:
            it.check()

    def kill(self):
        for it in [*self.brokers.values(), self.controller]:
            it.kill()


KINDS = {"tidemill": Tidemill, "kafka": Kafka}
