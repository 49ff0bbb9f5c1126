"""A PostgreSQL server as a process: started, crashed, stopped, asked."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import psycopg
from psycopg import sql

from waiting import wait

BIN = Path(os.environ.get("POSTGRES_BIN", ""))
READY_SECONDS = 30
PASSWORD = "hunter2-%/:@"


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Server:
    """One server with a folder of its own. It refuses to run as root, so root runs it as `postgres`."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
        self.data, self.log = self.folder / "data", self.folder / "server.log"
        self.port = free_port()
        self.process = None
        self.settings = {}
        self.user = None
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            self.user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            self.folder.chmod(0o755)
        self.call("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.certificates()
        hba = "local all all trust\nhost all secret 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
        (self.data / "pg_hba.conf").write_text(hba)

    def call(self, name, *arguments):
        command = [str(it) for it in (BIN / name if (BIN / name).exists() else name, *arguments)]
        ran = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **(self.user or {}))
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"

    def certificates(self):
        """An authority, and a certificate of its for the name `localhost` alone."""
        new = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        self.call(*new, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
        # An authority that signed nothing.
        self.call(*new, "-subj", "/CN=other", "-keyout", "other.key", "-out", "other.pem")
        more = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE")
        self.call(*new, *more, "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "server.key", "-out", "server.pem")

    def begin(self):
        settings = {
            "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder,
            # A crash of the processes is tested, none of the machine.
            "fsync": "off", "max_connections": 30,
            "ssl": "on", "ssl_cert_file": self.folder / "server.pem", "ssl_key_file": self.folder / "server.key",
            **self.settings,
        }
        options = [it for name, value in settings.items() for it in ("-c", f"{name}={value}")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(BIN / "postgres"), "-D", str(self.data), *options], cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **(self.user or {}))
        return self

    def start(self):
        self.begin()
        wait(self.is_ready, READY_SECONDS, "the server")
        return self

    def is_ready(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            self.ask("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(30)

    def crash(self):
        """As `pg_ctl stop -m immediate`: the next start recovers."""
        self.end(signal.SIGQUIT)

    def sessions(self):
        """Its processes but the first: they are in groups of their own."""
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=True)
        return map(int, children.stdout.split())

    def pause(self):
        """Nothing of it runs; its connections stay."""
        # While the parent is stopped nobody begins, and who ended keeps its number.
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        for it in self.sessions():
            os.kill(it, signal.SIGSTOP)

    def go_on(self):
        for it in self.sessions():
            os.kill(it, signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def remove(self):
        if self.process and self.process.poll() is None:
            self.end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database="postgres", **more):
        return psycopg.connect(host="127.0.0.1", port=self.port, user="postgres", dbname=database, autocommit=True, **more)

    def ask(self, query, *values, database="postgres"):
        with self.connect(database) as connection:
            cursor = connection.execute(query, values or None)
            return cursor.fetchall() if cursor.description else None


class Database:
    """A database of a test's own."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        server.ask(f"CREATE DATABASE {name}")

    @property
    def url(self):
        return f"postgresql://postgres@127.0.0.1:{self.server.port}/{self.name}"

    def url_at(self, port):
        """As a proxy can read it."""
        return f"postgresql://postgres@127.0.0.1:{port}/{self.name}?sslmode=disable"

    def ask(self, query, *values):
        return self.server.ask(query, *values, database=self.name)

    def rows(self, table):
        """All rows, sorted: where a server puts them is its own affair."""
        rows = self.ask(sql.SQL("SELECT * FROM {}").format(sql.Identifier(*table.split("."))))
        return sorted(rows, key=lambda row: [(it is None, it) for it in row])

    def columns(self, table):
        """The type of each column."""
        query = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute " \
            "WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"
        return dict(self.ask(query, table))

    def cycle(self, sink="out"):
        """The last cycle of the sink of `job` that is in its table; none if it has not begun."""
        try:
            found = self.ask("SELECT cycle FROM tidemill_sinks WHERE job = 'job' AND sink = %s", sink)
        except (psycopg.errors.UndefinedTable, psycopg.OperationalError):
            return None
        return found[0][0] if found else None

    def backends(self):
        """What the connections of jobs do, and whether they wait for the job."""
        return self.ask(
            "SELECT state, wait_event_type = 'Client' FROM pg_stat_activity "
            "WHERE application_name = 'tidemill' AND datname = %s", self.name)

    def cut_off(self):
        """Ends the connections on which jobs write, and none on which one is planned; says how many there were."""
        return len(self.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'tidemill' AND datname = %s AND query ~ '^(BEGIN|COPY|CREATE|INSERT|UPDATE)'", self.name))
