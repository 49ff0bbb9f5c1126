"""Jobs that write tables, run by the real binary."""

import json
import os
import signal
import subprocess
from pathlib import Path

from waiting import wait

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 60
SOURCE = "rows: {file: {path: rows.ndjson, format: json}}"
TIMED = "rows: {file: {path: rows.ndjson, format: json}, time: {field: at}}"
START_MS = 1_700_000_000_000


def binary():
    path = Path(os.environ.get("TIDEMILL_BIN", ROOT / "target/debug/tidemill")).resolve()
    assert path.is_file(), f"{path}: build it, or set TIDEMILL_BIN"
    return str(path)


class Mill:
    """A folder with a job file and its input, and the binary that runs it."""

    def __init__(self, folder, database):
        self.folder, self.database = folder, database
        self.begun = []

    def input(self, rows):
        """Writes the file that SOURCE reads."""
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        (self.folder / "rows.ndjson").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def numbered(self, count):
        """Rows of which no two are the same."""
        self.input({"id": i, "at": START_MS + i * 40, "name": f"n{i % 7}", "amount": i * 0.25, "note": None if i % 5 == 0 else "ä" * (i % 9)} for i in range(count))

    def job(self, sinks, stages="", head="", source=SOURCE, name="job"):
        """Writes the job file. `sinks` are their entries: lines of YAML."""
        def part(title, lines):
            return [f"{title}:", *(f"  {line}" for line in lines.strip("\n").splitlines())] if lines.strip() else []
        lines = [f"name: {name}", *head.splitlines(), *part("sources", source), *part("stages", stages), *part("sinks", sinks)]
        (self.folder / "job.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def table(self, table, *more, url=None, of="rows", sink="out"):
        """The entry of a sink."""
        url = url or self.database.url
        return f"{sink}: {{from: {of}, postgres: {{{', '.join([f'url: {json.dumps(url)}', f'table: {json.dumps(table)}', *more])}}}}}"

    def begin(self, *arguments, env=None, command="run"):
        # A file each, so that nobody has to read while it runs.
        self.said = self.folder / "said.txt"
        with open(self.said, "wb") as said:
            self.begun.append(subprocess.Popen(
                [binary(), *command.split(), "job.yaml", *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=said, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}))
        return self.begun[-1]

    def kill(self):
        """Ends what a test has left: a process that was paused may hold up the server."""
        for process in self.begun:
            if process.poll() is None:
                process.kill()
                process.wait()

    def end(self, process, code=0, seconds=RUN_SECONDS):
        """Waits for the end; gives what it said."""
        try:
            found = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it does not end: {self.text()}") from None
        assert found == code, f"exit {found}, expected {code}\n{self.text()}"
        assert "panicked" not in self.text(), self.text()
        return self.text()

    def text(self):
        return self.said.read_text(errors="replace")

    def run(self, *arguments, code=0, env=None, command="run"):
        return self.end(self.begin(*arguments, env=env, command=command), code)

    def refused(self, *expected, env=None):
        """Runs the job, which must be refused before it begins, for these reasons."""
        text = self.run("--data", "refused", code=2, env=env)
        for it in expected:
            assert it in text, text
        return text

    def reaches(self, process, cycle, sink="out"):
        """Waits until the sink has committed that many cycles; false if the job ended first."""
        def there():
            return process.poll() is not None or (self.database.cycle(sink) or 0) >= cycle
        wait(there, RUN_SECONDS, f"cycle {cycle}")
        return process.poll() is None

    def run_killed(self, cycles, *arguments, sink="out"):
        """Runs the job to its end, and kills it each time it has reached one of these cycles. Says how
        often it was killed."""
        kills = 0
        for cycle in cycles:
            process = self.begin(*arguments, *(["--resume"] if kills else []))
            if not self.reaches(process, cycle, sink):
                self.end(process)
                return kills
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        self.run(*arguments, "--resume")
        return kills
