"""etcd that is away, and etcd that was wiped."""

import shutil
import time

from clusters import LEASE_SECONDS, PATIENCE_SECONDS
from node import Node
from waiting import wait

REFUSED = "the coordinator's table is empty, and the data folder is of cluster"


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
    assert second.process.wait(PATIENCE_SECONDS) == 2
    assert REFUSED in second.said() and "restore the coordinator's table" in second.said(), second.said()
    assert "ready" not in second.stdout()


def test_the_folder_of_a_node_that_was_alone_is_refused(of_etcd):
    of_etcd.etcd.start()
    alone = Node(of_etcd.folder / "node1").start()
    assert alone.stop()[0] == 0
    node = of_etcd.node(1).begin()
    assert node.process.wait(PATIENCE_SECONDS) == 2
    assert REFUSED in node.said() and "new data folders" in node.said(), node.said()
    # It is as it was, and goes on alone.
    assert Node(of_etcd.folder / "node1").start().stop()[0] == 0
