"""What the binary makes of many expressions at once, for each row of a table of edges.

Each expression is a stage of its own, so that a record that one has no value for is there for the others;
the rows of all that give no lists go to one sink, as text."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from references import Result

# A job has at most 1,024 sources, stages and sinks; each list takes a sink.
EXPRESSIONS_MAX = 450
# At once, each with one worker.
JOBS = 2
RUN_SECONDS = 240
STAGE = re.compile(r"stages\.e(\d+)\.")
ROW = re.compile(r"row (\d+)$")


@dataclass
class Evaluation:
    """One expression over one table: what came of each row, or why it was refused."""

    sql: str
    table: str
    lists: bool = False
    kind: str = ""
    rows: dict = field(default_factory=dict)
    refused: str | None = None


def evaluate(binary, inputs, folder, evaluations):
    """Fills all of them in."""

    def batch(first):
        place, taken = folder / f"job{first}", evaluations[first : first + EXPRESSIONS_MAX]
        place.mkdir(parents=True)
        while True:
            taken = [it for it in taken if it.refused is None]
            if not taken:
                return None
            ran = run(binary, place, written(inputs, taken))
            if ran.returncode == 0:
                return read(place, taken)
            assert ran.returncode == 2, f"exit {ran.returncode}\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
            assert set_aside(ran.stdout, taken), ran.stdout[-4000:]

    with ThreadPoolExecutor(max_workers=JOBS) as jobs:
        list(jobs.map(batch, range(0, len(evaluations), EXPRESSIONS_MAX)))


def written(inputs, evaluations):
    """The lines of a job file, of which each stage's expression has one."""
    lines = ["name: edges", "parallelism: 1", "slices: 1", "sources:"]
    lines += [f"  {table}: {{file: {{path: {json.dumps(str(inputs / (table + '.arrow')))}, format: arrow}}}}" for table in sorted({it.table for it in evaluations})]
    lines += ["stages:"]
    for number, it in enumerate(evaluations):
        shown = it.sql if it.lists else f"cast({it.sql} as text)"
        lines += [f"  e{number}:", f"    from: {it.table}", "    select:", f"      e: {number}", "      id: id", f"      v: {json.dumps(shown, ensure_ascii=False)}", f"      t: {json.dumps(f'arrow_typeof({it.sql})', ensure_ascii=False)}"]
    lines += ["sinks:"]
    texts = [f"e{number}" for number, it in enumerate(evaluations) if not it.lists]
    if texts:
        lines.append(f"  texts: {{from: [{', '.join(texts)}], file: {{path: texts.ndjson, format: json}}}}")
    lines += [f"  l{number}: {{from: e{number}, file: {{path: l{number}.ndjson, format: json}}}}" for number, it in enumerate(evaluations) if it.lists]
    return [*lines, "  bad: {from: dead_letter, file: {path: bad.ndjson, format: json}}"]


def run(binary, place, lines):
    (place / "job.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return subprocess.run([str(binary), "run", "job.yaml", "--json"], cwd=place, capture_output=True, text=True, timeout=RUN_SECONDS)


def set_aside(said, evaluations):
    """Notes which expressions a job was refused for; false if there is none."""
    last = json.loads(said.splitlines()[-1])
    found = [(STAGE.match(it["path"] or ""), it["message"]) for it in last["errors"]]
    # The last may say how many more there are.
    for stage, why in found:
        if stage:
            evaluations[int(stage[1])].refused = why
    return any(stage for stage, _ in found)


def read(place, evaluations):
    files = ["texts.ndjson", *(f"l{number}.ndjson" for number, it in enumerate(evaluations) if it.lists)]
    for name in files:
        if not (place / name).exists():
            continue
        with open(place / name, encoding="utf-8") as rows:
            for row in map(json.loads, rows):
                of = evaluations[row["e"]]
                assert row["id"] not in of.rows, f"{of.sql}: row {row['id']} came out twice"
                of.kind, of.rows[row["id"]] = row["t"], Result(row["v"])
    with open(place / "bad.ndjson", encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            of, number = evaluations[int(row["stage"][1:])], int(ROW.search(row["position"])[1])
            assert number not in of.rows, f"{of.sql}: row {number} came out and is a dead letter"
            of.rows[number] = Result(error=row["reason"])
