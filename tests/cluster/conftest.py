"""A cluster for each test, with voters and with etcd."""

import pytest

from clusters import Cluster


@pytest.fixture(params=["voters", "etcd"])
def cluster(request, tmp_path):
    made = Cluster(tmp_path, request.param)
    yield made
    made.end()


@pytest.fixture
def of_voters(tmp_path):
    made = Cluster(tmp_path, "voters")
    yield made
    made.end()


@pytest.fixture
def of_etcd(tmp_path):
    made = Cluster(tmp_path, "etcd")
    yield made
    made.end()
