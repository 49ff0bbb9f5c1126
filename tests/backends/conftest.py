"""The servers, each started once, and the events of the jobs."""

import itertools
import json
import os
import random

import pytest

from servers import KINDS

SERVERS = os.environ.get("TIDEMILL_TEST_SERVERS", "redis s3").split()
# So many that a job is not over before who kills it has had some turns.
EVENTS = 300_000
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


@pytest.fixture(scope="session")
def events(tmp_path_factory):
    draw = random.Random(3)
    path = tmp_path_factory.mktemp("events") / "events.ndjson"
    with open(path, "w") as file:
        for nth in range(EVENTS):
            # One in ten comes twice.
            number = nth if draw.random() < 0.9 else draw.randrange(nth + 1)
            event = {"id": number, "ts": 1_700_000_000_000 + 1_000 * nth, "user": f"u{number % 500}", "amount": number % 97}
            file.write(json.dumps(event) + "\n")
    return path
