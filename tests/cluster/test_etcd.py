"""etcd that is away, and etcd that was wiped."""

import shutil
import time

from clusters import LEASE_SECONDS, PATIENCE_SECONDS
from waiting import wait


def test_nodes_go_on_while_etcd_is_away(of_etcd):
    nodes = of_etcd.start()
    of_etcd.etcd.pause()
    for it in nodes:
        wait(lambda it=it: it.status()["state"] in ("waiting", "fenced"), PATIENCE_SECONDS, "it says that it waits")
        assert it.status()["message"]
        it.create(f"while-{it.number}")
        it.append(f"while-{it.number}", [{"a": 1}])
        assert it.get("/health").status == 200
    time.sleep(2 * LEASE_SECONDS)  # The outage itself.
    of_etcd.etcd.go_on()
    for it in nodes:
        wait(it.is_joined, PATIENCE_SECONDS, f"node {it.number} is a member again")
    for it in nodes:
        wait(lambda it=it: of_etcd.knows_all(it, 3), PATIENCE_SECONDS, "all know each other")


def test_a_wiped_etcd_is_no_new_cluster(of_etcd):
    nodes = of_etcd.start(count=2)
    first, second = nodes
    of_etcd.etcd.kill()
    shutil.rmtree(of_etcd.etcd.folder)
    of_etcd.etcd.start()
    wait(lambda: first.status()["state"] == "replaced", PATIENCE_SECONDS, "node 1 says so")
    assert first.get("/health").status == 200, "it goes on with its own work"
    # One that starts again does not begin an empty cluster either.
    second.kill()
    second.begin()
    wait(lambda: second.process.poll() is not None or "wiped" in second.said() or "waits to join" in second.said(), PATIENCE_SECONDS, "node 2 says what is wrong")
    assert "ready" not in second.stdout()
    third = of_etcd.node(3)
    assert third.data.exists() is False
