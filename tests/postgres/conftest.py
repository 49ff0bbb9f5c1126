"""A server that tests share, servers of a test's own, and a database for each test."""

import itertools

import pytest

from mill import Mill
from proxy import Proxy
from server import Database, Server

NAMES = itertools.count()


@pytest.fixture(scope="session")
def shared():
    server = Server().start()
    yield server
    server.remove()


@pytest.fixture
def database(shared):
    return Database(shared, f"test{next(NAMES)}")


@pytest.fixture
def mill(tmp_path, database):
    made = Mill(tmp_path, database)
    yield made
    made.kill()


@pytest.fixture
def own():
    """A server that a test may crash."""
    server = Server().start()
    yield server
    server.remove()


@pytest.fixture
def proxy():
    """proxy(port, plan): between a job and a server."""
    made = []

    def make(port, plan=()):
        made.append(Proxy(port, plan))
        return made[-1]

    yield make
    for it in made:
        it.close()
