"""The servers, each started once, and the events of the jobs."""

import itertools
import json
import os
import random
import time

import pytest

from jobs import FILE_JOB, Run
from servers import KINDS

SERVERS = os.environ.get("TIDEMILL_TEST_SERVERS", "redis s3").split()
# So many, and for a build that is quick as many more as it takes, that a job is not over before who kills it has had
# some turns.
EVENTS, SECONDS = 300_000, 6
NAMES = itertools.count()


@pytest.fixture(scope="session", params=SERVERS)
def shared(request, tmp_path_factory):
    server = KINDS[request.param](tmp_path_factory.mktemp(request.param) / "server")
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.fixture
def server(shared):
    """The server, which a test may kill."""
    if not shared.processes:
        shared.start()
    return shared


@pytest.fixture
def name():
    """A job's name that no other test uses."""
    return f"job-{next(NAMES)}"


def write_events(path, count):
    draw = random.Random(3)
    with open(path, "w") as file:
        for nth in range(count):
            # One in ten comes twice.
            number = nth if draw.random() < 0.9 else draw.randrange(nth + 1)
            event = {"id": number, "ts": 1_700_000_000_000 + 1_000 * nth, "user": f"u{number % 500}", "amount": number % 97}
            file.write(json.dumps(event) + "\n")


@pytest.fixture(scope="session")
def events(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    path = folder / "events.ndjson"
    write_events(path, EVENTS)
    job = Run(folder / "timed", FILE_JOB.format(name="timed", backend="indexed: {}", input=path), {})
    begun = time.monotonic()
    job.whole()
    took = time.monotonic() - begun
    if took < SECONDS:
        write_events(path, int(EVENTS * SECONDS / took))
    return path
