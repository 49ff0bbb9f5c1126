"""Nodes: one that most tests share, and nodes of a test's own."""

import itertools

import pytest

from node import Node

NAMES = itertools.count()


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("shared")).start()
    yield node
    node.kill()


@pytest.fixture
def node(shared):
    """The node that tests share; each has to leave it alive."""
    assert shared.process.poll() is None, shared.said()
    yield shared
    assert shared.process.poll() is None, shared.said()
    assert shared.get("/health").status == 200
    assert "panicked" not in shared.said()


@pytest.fixture
def own(tmp_path):
    """own(*flags): a node of the test's own."""
    made = []

    def make(*flags, **more):
        made.append(Node(tmp_path / f"own{len(made)}", *flags, **more))
        return made[-1]

    yield make
    for it in made:
        it.kill()
        if it.process:
            assert "panicked" not in it.said()


@pytest.fixture
def name():
    """A stream's name that no other test uses."""
    return f"stream-{next(NAMES)}"
