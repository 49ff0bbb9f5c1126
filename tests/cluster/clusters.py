"""Clusters of nodes as processes, and etcd beside them."""

import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

from node import Node, binary, clean_environment
from waiting import wait

LEASE_SECONDS = 4
# A machine with more to do than it has processors takes its time.
PATIENCE_SECONDS = 60


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for it in sockets:
        it.bind(("127.0.0.1", 0))
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


class ClusterNode(Node):
    """A node of a cluster."""

    def __init__(self, folder, number, cluster_port, key, *flags):
        super().__init__(folder, "--node-id", str(number), "--cluster-listen", f"127.0.0.1:{cluster_port}", "--cluster-key-file", str(key), "--node-lease", f"{LEASE_SECONDS}s", *flags, ports=free_ports(2))
        self.number, self.cluster_port = number, cluster_port

    def is_ready(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.said()}"
        text = self.stdout()
        return text.startswith("ready ") and text.endswith(f"cluster=127.0.0.1:{self.cluster_port}\n")

    def status(self):
        return self.get("/cluster").json()

    def is_joined(self):
        return self.status()["state"] == "joined"

    def sees(self, number):
        """A node as this one sees it; none if it does not know it."""
        return next((it for it in self.status()["nodes"] if it["node"] == number), None)

    def incarnation(self):
        return self.status()["incarnation"]

    def events(self, after=0):
        return [it["event"] for it in self.get(f"/cluster/events?after={after}").json()["events"]]

    def counter(self, name):
        """The sum of a counter over its labels."""
        lines = self.get("/metrics").body.decode().splitlines()
        return sum(float(it.split()[-1]) for it in lines if it.split("{")[0].split(" ")[0] == name)

    def cli(self, *arguments):
        done = subprocess.run(
            [binary(), "cluster", *arguments, "--http", f"127.0.0.1:{self.http_port}"], capture_output=True, text=True, timeout=60, env=clean_environment())
        return done.returncode, done.stdout, done.stderr

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.killpg(self.process.pid, signal.SIGCONT)


class Cluster:
    """Nodes that share a key and a coordinator."""

    def __init__(self, folder, home):
        self.folder, self.home = Path(folder), home
        self.folder.mkdir(parents=True, exist_ok=True)
        self.key = self.folder / "key"
        self.key.write_text("the key of the cluster of this test, 0123456789\n")
        self.ports = free_ports(3)
        self.etcd = Etcd(self.folder / "etcd") if home == "etcd" else None
        self.made = []

    def coordinator(self):
        if self.etcd:
            return ["--coordinator", f"etcd:{self.etcd.url}"]
        return ["--join", ",".join(f"127.0.0.1:{it}" for it in self.ports)]

    def node(self, number, key=None, port=None, folder=None):
        port = port or (self.ports[number - 1] if number <= len(self.ports) else free_ports(1)[0])
        folder = self.folder / (folder or f"node{number}")
        made = ClusterNode(folder, number, port, key or self.key, *self.coordinator())
        self.made.append(made)
        return made

    def start(self, count=3):
        """Nodes 1 to `count`, all of which know each other."""
        if self.etcd:
            self.etcd.start()
        nodes = [self.node(number).begin() for number in range(1, count + 1)]
        for it in nodes:
            wait(it.is_ready, PATIENCE_SECONDS, f"node {it.number} is ready")
        for it in nodes:
            wait(lambda it=it: self.knows_all(it, count), PATIENCE_SECONDS, f"node {it.number} knows all")
        return nodes

    @staticmethod
    def knows_all(node, count):
        status = node.status()
        others = [it for it in status["nodes"] if it["node"] != status["node"]]
        return len(status["nodes"]) == count and all(it["state"] == "live" for it in status["nodes"]) and all(it["reached"] for it in others) and status["controller"] is not None

    def end(self):
        for it in self.made:
            if it.process and it.process.poll() is None:
                it.go_on()
                it.kill()
        if self.etcd:
            self.etcd.kill()
        for it in self.made:
            if it.process:
                assert "panicked" not in it.said(), it.said()


class Etcd:
    """One etcd as a process."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.clients, self.peers = free_ports(2)
        self.url = f"http://127.0.0.1:{self.clients}"
        self.process = None
        self.lives = 0

    def start(self):
        self.lives += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        peer = f"http://127.0.0.1:{self.peers}"
        command = [
            os.environ["ETCD"], "--name", "one", "--data-dir", str(self.folder / "data"), "--listen-client-urls", self.url,
            "--advertise-client-urls", self.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"one={peer}",
            # A wiped one is another cluster.
            "--initial-cluster-token", f"life-{self.lives}"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait(self.answers, PATIENCE_SECONDS, "etcd answers")
        return self

    def answers(self):
        assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")[-2000:]
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as response:
                return json.load(response)["health"] == "true"
        except OSError:
            return False

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.go_on()
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
