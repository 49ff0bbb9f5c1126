"""Random jobs against a model of what docs/job.md says.

ORACLE_SEEDS=FROM..TO runs other seeds than the few that always run, but TO itself; one alone repeats a
failure."""

import json
import os
import subprocess
import traceback
from collections import Counter

import pytest

import written
from random_jobs import Job

FROM, TO = (int(it) for it in os.environ.get("ORACLE_SEEDS", "0..40").split(".."))
# Seeds of one test: few enough that several tests can fail.
TOGETHER = 10


def run(binary, seed, folder):
    """Runs the job of a seed; gives what differs, or None."""
    job = Job(seed, folder)
    (folder / "job.yaml").write_text(job.text(), encoding="utf-8")
    saved = ["--data", "data"] if job.is_saved else []
    try:
        ran = subprocess.run([str(binary), "run", "job.yaml", "--json", *saved], cwd=folder, capture_output=True, text=True, timeout=120)
        if ran.returncode:
            raise written.Differs(f"exit {ran.returncode}\n{ran.stdout[-1000:]}\n{ran.stderr[-2000:]}")
        for name, sink in job.sinks.items():
            flow, file = job.flows.get(sink["from"]), sink["file"]
            try:
                if flow is None:
                    letters(folder / file["path"], job)
                    continue
                found = written.rows(folder / file["path"], file["format"], flow.columns, flow.named)
                expected = [tuple(row.values[it] for it in flow.columns) for row in flow.rows()]
                written.compare(found, expected, flow.columns, file["format"])
            except written.Differs as error:
                raise written.Differs(f"sink `{name}`: {error}") from error
    except Exception as error:  # whatever it is, the job is wanted with it
        said = str(error) if isinstance(error, written.Differs) else traceback.format_exc()
        return f"{said}\n\n{job.text()}"
    return None


def letters(path, job):
    """Dead letters are of the stages and sources of which they must be."""
    with open(path, encoding="utf-8") as file:
        found = Counter(json.loads(line)["stage"].split(".")[0] for line in file)
    expected = Counter({name: flow.refused for name, flow in job.flows.items() if flow.refused and (name in job.stages or name in job.description()["sources"])})
    if found != expected:
        raise written.Differs(f"dead letters of {dict(found)}, expected {dict(expected)}")


@pytest.mark.parametrize("first", range(FROM, TO, TOGETHER))
def test_random_jobs(binary, tmp_path, first):
    for seed in range(first, min(first + TOGETHER, TO)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        differs = run(binary, seed, folder)
        repeat = f"ORACLE_SEEDS={seed}..{seed + 1} tests/oracle/run.sh -k random"
        assert differs is None, f"seed {seed}, repeated by `{repeat}`; its files are in {folder}\n{differs}"
