"""Stream processors of others as processes: a Kafka Streams application and a Flink job, built on first use; and the jars of Kafka Connect."""

import os
import shutil
import subprocess
import threading

from agents import HERE, HOME


def built(name):
    """The class path of engines/NAME; jars and classes are kept in the folder of the clients."""
    source, home = HERE / "engines" / name, HOME / "engines" / name
    jars, classes = home / "jars", home / "classes"
    pom = source / "pom.xml"
    if not (home / "pom.xml").exists() or (home / "pom.xml").read_bytes() != pom.read_bytes():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        subprocess.run(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"], check=True)
        shutil.copy(pom, home / "pom.xml")
    texts = sorted((source / "src").glob("*.java"))
    if not texts:
        return f"{jars}/*"
    if not classes.exists() or max(it.stat().st_mtime for it in texts) > classes.stat().st_mtime:
        shutil.rmtree(classes, ignore_errors=True)
        subprocess.run(["javac", "-nowarn", "-encoding", "UTF-8", "-d", classes, "-cp", f"{jars}/*", *texts], check=True)
    return f"{classes}:{jars}/*"


class Engine:
    """A process of an engine. What it says on standard output can be waited for."""

    OPENS = ("java.util", "java.lang", "java.time")

    def __init__(self, name, main, arguments, log):
        opens = [f"--add-opens=java.base/{it}=ALL-UNNAMED" for it in self.OPENS]
        line = ["java", "-Xmx512m", "-XX:+UseSerialGC", *opens, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", built(name), main]
        self.log, self.said, self.changed = log, [], threading.Condition()
        with open(log, "ab") as errors:
            self.process = subprocess.Popen([*line, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.said.append(line.strip())
                self.changed.notify_all()
        with self.changed:
            self.said.append(None)
            self.changed.notify_all()

    def wait_for(self, word, seconds):
        with self.changed:
            found = self.changed.wait_for(lambda: word in self.said or None in self.said, seconds)
            assert found and word in self.said, f"`{word}` was not said in {seconds} s: {self.said}\n{self.tail()}"

    def tail(self):
        return self.log.read_text(errors="replace")[-3000:]

    def close(self, seconds=60):
        self.process.stdin.close()
        assert self.process.wait(seconds) == 0, self.tail()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()
