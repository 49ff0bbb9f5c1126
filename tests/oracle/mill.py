"""Runs jobs with the real binary, and compares rows with those of a SQL query."""

import json
import math
import subprocess
from datetime import datetime, timezone

# Sources that jobs share; each is an entry of `sources`.
SOURCES = {
    "flights": "flights: {{file: {{path: {inputs}/flights.ndjson, format: json}}, time: {{field: ts}}}}",
    "weather": "weather: {{file: {{path: {inputs}/weather.ndjson, format: json, sample: 1000000}}, time: {{field: ts}}}}",
    "airlines": "airlines: {{file: {{path: {inputs}/airlines.csv, format: csv}}}}",
    "planes": "planes: {{file: {{path: {inputs}/planes.csv, format: csv}}}}",
}
HOUR = 3_600_000
DAY = 24 * HOUR


class Mill:
    """A folder with a job file, and the binary that runs it."""

    def __init__(self, binary, inputs, folder):
        self.binary, self.inputs, self.folder = binary, inputs, folder

    def write(self, stages, sinks="out", sources=("flights",), head=""):
        """Writes `job.yaml`. `stages` is YAML as it stands in a file; each sink `NAME` writes the
        rows of stage NAME to `NAME.ndjson`; a source is a name of SOURCES or an entry."""
        entries = [SOURCES.get(it, it).format(inputs=self.inputs) if it in SOURCES else it for it in sources]
        lines = ["name: oracle", *head.splitlines(), "sources:", *(f"  {it}" for it in entries), "stages:"]
        lines += [f"  {line}" for line in stages.strip("\n").splitlines()]
        lines += ["sinks:"]
        for name in sinks.split():
            lines.append(f"  {name}_file: {{from: {name}, file: {{path: {name}.ndjson, format: json}}}}")
        path = self.folder / "job.yaml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def command(self, *more):
        return [str(self.binary), "run", "job.yaml", *more]

    def run(self, *more, code=0):
        """Runs `job.yaml`; fails if it does not end with `code`."""
        ran = subprocess.run(
            self.command("--json", *more), cwd=self.folder, capture_output=True, text=True, timeout=120
        )
        job = (self.folder / "job.yaml").read_text(encoding="utf-8", errors="replace")
        assert ran.returncode == code, f"exit {ran.returncode}\n{job}\n{ran.stdout[-2000:]}\n{ran.stderr}"
        return ran

    def _ran(self, line, code):
        ran = subprocess.run(
            [str(self.binary), *line], cwd=self.folder, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == code, f"exit {ran.returncode}\n{ran.stdout[-2000:]}\n{ran.stderr}"
        return ran

    def say(self, *line, code=0):
        """What the command line answers, and what it remarks."""
        ran = self._ran(line, code)
        return ran.stdout + ran.stderr

    def ask(self, *line):
        """What the command line answers with `--json`; what it remarks goes elsewhere."""
        return json.loads(self._ran([*line, "--json"], 0).stdout)

    def begin(self, *line):
        """The command line, at work."""
        return subprocess.Popen(
            [str(self.binary), *line], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def rows(self, name="out"):
        with open(self.folder / f"{name}.ndjson", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def results(self, stages, sinks="out", sources=("flights",), head=""):
        """Runs a job, gives the rows of each sink by name."""
        self.write(stages, sinks, sources, head)
        self.run()
        return {name: self.rows(name) for name in sinks.split()}

    def out(self, stages, sources=("flights",), head=""):
        """Runs a job with the one sink `out`, gives its rows."""
        return self.results(stages, "out", sources, head)["out"]


def _exact(value):
    """A value as it is compared and sorted: moments in microseconds, nulls last."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        delta = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return value


def _moment(value):
    """A moment of an output row (RFC 3339, in UTC), in microseconds."""
    if value is None:
        return None
    assert isinstance(value, str) and value.endswith("Z"), f"not RFC 3339 in UTC: {value!r}"
    return _exact(datetime.fromisoformat(value))


def _order(value):
    return (value is None, str(type(value).__name__), value if value is not None else 0)


def same(db, rows, sql):
    """Fails unless `rows` are, in any order, the rows of `sql`: the same columns in the same order,
    floats to one part in 1e9, everything else exactly."""
    answer = db.execute(sql)
    names = [it[0] for it in answer.description]
    kinds = [str(it[1]) for it in answer.description]
    expected = answer.fetchall()
    assert expected, f"a query without rows shows nothing: {sql}"
    floats = [i for i, kind in enumerate(kinds) if kind in ("DOUBLE", "FLOAT")]
    exact = [i for i in range(len(names)) if i not in floats]
    moments = {i for i, kind in enumerate(kinds) if kind.startswith("TIMESTAMP")}

    found = []
    for row in rows:
        assert list(row) == names, f"columns {list(row)}, expected {names}"
        values = list(row.values())
        found.append(tuple(_moment(it) if i in moments else it for i, it in enumerate(values)))
    expected = [tuple(_exact(it) for it in row) for row in expected]

    def order(row):
        return [_order(row[i]) for i in exact] + [_order(row[i] and float(row[i])) for i in floats]

    found.sort(key=order)
    expected.sort(key=order)
    for ours, theirs in zip(found, expected):
        assert _equal(ours, theirs, exact, floats), (
            f"{dict(zip(names, ours))}, expected {dict(zip(names, theirs))}"
        )
    assert len(found) == len(expected), f"{len(found)} rows, expected {len(expected)}"


def _equal(ours, theirs, exact, floats):
    for i in exact:
        if type(ours[i]) is not type(theirs[i]) or ours[i] != theirs[i]:
            return False
    for i in floats:
        if ours[i] is None or theirs[i] is None:
            if ours[i] is not theirs[i]:
                return False
        elif not math.isclose(ours[i], theirs[i], rel_tol=1e-9, abs_tol=1e-9):
            return False
    return True
