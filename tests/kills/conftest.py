"""Seeds, and what was done under them, which is told at the end."""

import os
import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

# Seeds of each test, if KILLS_SEEDS does not say others.
SEEDS = {"test_runs": 6, "test_nodes": 2}
# What each test asks of each of its seeds; all have to have hit a process that ran.
KILLS_MIN = {"test_runs": 5, "test_nodes": 8}
TOLD = ("jobs", "kills", "resumes", "starts of nodes", "cancels", "rescales", "records")
DONE = Counter()
FLOOR = Counter()


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        first, _, end = os.environ.get("KILLS_SEEDS", f"0..{SEEDS[metafunc.module.__name__]}").partition("..")
        metafunc.parametrize("seed", range(int(first), int(end)))


@pytest.fixture
def done():
    """Counts what is done to jobs and nodes."""
    return DONE


@pytest.fixture
def kills_min(request):
    return KILLS_MIN[request.module.__name__]


@pytest.fixture
def kept(request, seed):
    """A folder that stays, and is named with the seed, if the test fails."""

    @contextmanager
    def make():
        folder = Path(tempfile.mkdtemp(prefix=f"tidemill-kills-{seed}-"))
        FLOOR["kills"] += KILLS_MIN[request.module.__name__]
        try:
            yield folder
        except Exception as error:
            again = f"KILLS_SEEDS={seed}..{seed + 1} tests/kills/run.sh -k {request.module.__name__}"
            raise AssertionError(f"seed {seed}: {error}\nfolder: {folder}\nagain: {again}") from error
        shutil.rmtree(folder)

    return make


@pytest.fixture(scope="session", autouse=True)
def enough(request):
    """Fails if kills came too late to hit anything: such a run shows nothing."""
    yield
    if request.session.testsfailed:
        return
    assert DONE["kills"] >= FLOOR["kills"], f"{DONE['kills']} kills hit a process that ran, at least {FLOOR['kills']} must"


def pytest_terminal_summary(terminalreporter):
    said = ", ".join(f"{DONE[it]} {it}" for it in TOLD)
    terminalreporter.write_line(f"kills: {said}")
