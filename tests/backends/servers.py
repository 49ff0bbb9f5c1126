"""Servers as processes: started, killed, started again on the same port with the same data."""

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

from waiting import wait

START_SECONDS = 120
SECRET = "secret-5a7c"
"""The password of every server that has one."""


def free_ports(count):
    """Ports that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


def is_open(port):
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


class Server:
    """A server of one process or more, in a folder of its own."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self.processes = []

    def launch(self, name, *command, environment=None):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes.append(subprocess.Popen(
                [str(it) for it in command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environment or {})}, start_new_session=True))

    def is_up(self):
        codes = [it.poll() for it in self.processes]
        assert not any(code is not None for code in codes), f"ended with {codes}: see {self.folder}"
        try:
            return self.answers()
        except (OSError, http.client.HTTPException):
            return False

    def start(self):
        self.begin()
        wait(self.is_up, START_SECONDS, f"an answer of {self.name}")
        return self

    def kill(self):
        for it in reversed(self.processes):
            if it.poll() is None:
                os.killpg(it.pid, signal.SIGKILL)
            it.wait()
        self.processes = []


class Redis(Server):
    """Redis that syncs what it is given before it answers."""

    name = "redis"
    refuses_owner = "redis-cli DEL tidemill:{job}:owner"

    def __init__(self, folder):
        super().__init__(folder)
        [self.port] = free_ports(1)

    def begin(self):
        self.launch(
            "redis", "redis-server", "--bind", "127.0.0.1", "--port", self.port, "--save", "", "--appendonly", "yes",
            "--appendfsync", "always", "--requirepass", SECRET)

    def ask(self, *command):
        """One command, and its answer as Python has it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            stream = connection.makefile("rwb")
            for parts in (("AUTH", SECRET), command):
                parts = [it if isinstance(it, bytes) else str(it).encode() for it in parts]
                stream.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(it), it) for it in parts))
                stream.flush()
                answer = self.read(stream)
            return answer

    def read(self, stream):
        line = stream.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"*":
            return [self.read(stream) for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
        if kind == b":":
            return int(rest)
        if kind == b"-" or not line:
            raise ConnectionError(line)
        return rest

    def answers(self):
        return self.ask("PING") == b"PONG"

    def backend(self):
        return f"redis: {{url: 'redis://127.0.0.1:{self.port}/0'}}"

    def environment(self):
        return {"REDIS_PASSWORD": SECRET}

    def contract(self):
        return {"TIDEMILL_TEST_REDIS": f"redis://:{SECRET}@127.0.0.1:{self.port}/0"}

    def keys(self, job, first):
        """The keys of a job that begin with this letter."""
        return [it for it in self.ask("ZRANGE", f"tidemill:{job}:keys", 0, -1) if it.startswith(first)]

    def damage(self, job):
        """Changes one byte of every run of a job; gives how many there are."""
        keys = self.keys(job, b"r")
        for key in keys:
            name = f"tidemill:{job}:value:".encode() + key
            byte = self.ask("GETRANGE", name, 0, 0)
            self.ask("SETRANGE", name, 0, bytes([byte[0] ^ 1]))
        return len(keys)

    def free(self, job):
        self.ask("DEL", f"tidemill:{job}:owner")


class S3(Server):
    """A gateway that speaks S3 over a folder."""

    name = "s3"
    refuses_owner = "the object `checkpoints/of/{job}/owner`"

    def __init__(self, folder):
        super().__init__(folder)
        [self.port] = free_ports(1)
        for bucket in ("contract", "bucket"):
            (self.folder / "objects" / bucket).mkdir(parents=True)
        (self.folder / "iam").mkdir()

    def begin(self):
        self.launch(
            "s3", os.environ["VERSITYGW"], "--port", f"127.0.0.1:{self.port}", "--access", "tester", "--secret", SECRET,
            "--iam-dir", self.folder / "iam", "--health", "/health", "posix", self.folder / "objects")

    def answers(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200

    def backend(self):
        return (
            f"object_store: {{url: 's3://bucket/checkpoints/of', endpoint: 'http://127.0.0.1:{self.port}', "
            "region: us-east-1, allow_http: true}")

    def environment(self):
        return {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": SECRET}

    def contract(self):
        return {"TIDEMILL_TEST_S3": f"http://127.0.0.1:{self.port}", **self.environment()}

    def place(self, job):
        return self.folder / "objects/bucket/checkpoints/of" / job

    def keys(self, job, first):
        folder = self.place(job) / "value" / first.hex()
        return [it for it in folder.iterdir() if it.is_file()] if folder.exists() else []

    def damage(self, job):
        runs = self.keys(job, b"r")
        for run in runs:
            with open(run, "r+b") as file:
                first = file.read(1)
                file.seek(0)
                file.write(bytes([first[0] ^ 1]))
        return len(runs)

    def free(self, job):
        (self.place(job) / "owner").unlink()


class Hbase(Server):
    """HBase in one process, and its REST gateway in another."""

    name = "hbase"
    refuses_owner = "deleteall 'tidemill', '{job}.owner'"
    opened = ("java.lang", "java.io", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch", "jdk.internal.ref", "jdk.internal.misc")

    def __init__(self, folder):
        super().__init__(folder)
        keeper, self.port, master, region = free_ports(4)
        self.inner_ports = (keeper, master, region)
        settings = {
            "hbase.rootdir": f"file://{self.folder}/data", "hbase.tmp.dir": f"{self.folder}/tmp",
            "hbase.cluster.distributed": "false", "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.wal.provider": "filesystem", "hbase.zookeeper.quorum": "127.0.0.1",
            "hbase.zookeeper.property.clientPort": keeper, "hbase.zookeeper.property.clientPortAddress": "127.0.0.1",
            "hbase.zookeeper.property.dataDir": f"{self.folder}/zookeeper", "hbase.rest.host": "127.0.0.1",
            "hbase.rest.port": self.port, "hbase.rest.info.port": -1}
        for name, port in (("master", master), ("regionserver", region)):
            settings |= {
                f"hbase.{name}.hostname": "127.0.0.1", f"hbase.{name}.ipc.address": "127.0.0.1",
                f"hbase.{name}.port": port, f"hbase.{name}.info.port": -1}
        lines = [f"<property><name>{name}</name><value>{it}</value></property>" for name, it in settings.items()]
        (self.folder / "conf").mkdir()
        (self.folder / "conf/hbase-site.xml").write_text("\n".join(["<configuration>", *lines, "</configuration>"]))

    def begin(self):
        opens = [f"--add-opens=java.base/{it}=ALL-UNNAMED" for it in self.opened]
        path = f"{self.folder}/conf:{Path(os.environ['HBASE_CLASSPATH']).read_text().strip()}"
        for name, room, main in (("hbase", "1g", "master.HMaster"), ("rest", "256m", "rest.RESTServer")):
            package = "org.apache.hadoop.hbase."
            self.launch(
                name, "java", f"-Xmx{room}", *opens, f"-Dhbase.log.dir={self.folder}", "-Djava.net.preferIPv4Stack=true",
                "-cp", path, package + main, "start")
            # The gateway ends if there is nothing yet that it could speak to.
            wait(lambda: all(is_open(port) for port in self.inner_ports), START_SECONDS, "HBase's ports")

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()

    def answers(self):
        return self.ask("GET", "/version/cluster")[0] == 200

    def start(self):
        super().start()
        for table in ("contract", "tidemill"):
            if self.ask("GET", f"/{table}/exists")[0] != 200:
                schema = f'<TableSchema name="{table}"><ColumnSchema name="t"/></TableSchema>'
                status, said = self.ask("PUT", f"/{table}/schema", schema, Content_Type="text/xml")
                assert status == 201, said
        return self

    def backend(self):
        return f"hbase: {{url: 'http://127.0.0.1:{self.port}'}}"

    def environment(self):
        return {}

    def contract(self):
        return {"TIDEMILL_TEST_HBASE": f"http://127.0.0.1:{self.port}", "TIDEMILL_TEST_HBASE_TABLE": "contract"}

    def keys(self, job, first):
        status, said = self.ask("GET", f"/tidemill/{job}.value.{first.hex()}*", Accept="application/json")
        return json.loads(said)["Row"] if status == 200 else []

    def damage(self, job):
        rows = self.keys(job, b"r")
        for row in rows:
            value = base64.b64decode(row["Cell"][0]["$"])
            name = base64.b64decode(row["key"]).decode()
            value = bytes([value[0] ^ 1]) + value[1:]
            status, said = self.ask("PUT", f"/tidemill/{name}/t:v", value, Content_Type="application/octet-stream")
            assert status == 200, said
        return len(rows)

    def free(self, job):
        status, said = self.ask("DELETE", f"/tidemill/{job}.owner")
        assert status == 200, said


KINDS = {it.name: it for it in (Redis, S3, Hbase)}
