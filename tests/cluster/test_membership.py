"""Nodes come, stop, are killed and paused; the others see it, and old lives are refused."""

import json
import time

from clusters import LEASE_SECONDS, PATIENCE_SECONDS, free_ports
from waiting import wait


def test_three_nodes_are_one_cluster(cluster):
    nodes = cluster.start()
    statuses = [it.status() for it in nodes]
    assert len({it["cluster_id"] for it in statuses}) == 1
    assert len({it["incarnation"] for it in statuses}) == 3
    assert len({it["controller"] for it in statuses}) == 1
    first = nodes[0]
    code, out, _ = first.cli("status")
    assert code == 0 and "this node" in out and "controller" in out, out
    code, out, _ = first.cli("nodes", "--json")
    assert code == 0
    listed = json.loads(out)["nodes"]
    assert [it["node"] for it in listed] == [1, 2, 3]
    assert [it["cluster"] for it in listed] == [f"127.0.0.1:{it}" for it in cluster.ports]
    code, out, _ = first.cli("events")
    assert code == 0 and "joined as incarnation" in out, out
    assert first.counter("tidemill_cluster_nodes_live") == 3


def test_a_killed_node_is_lost_and_comes_back_in_a_new_life(cluster):
    nodes = cluster.start()
    first, third = nodes[0], nodes[2]
    before = third.incarnation()
    third.kill()
    wait(lambda: first.sees(3)["state"] == "lost", PATIENCE_SECONDS, "node 3 is lost")
    assert f"the lease of node 3 ended, incarnation {before}" in first.events()
    third.begin()
    wait(third.is_ready, PATIENCE_SECONDS, "node 3 is back")
    wait(lambda: first.sees(3)["state"] == "live", PATIENCE_SECONDS, "node 3 is live")
    assert third.incarnation() > max(before, first.incarnation())


def test_a_clean_stop_is_seen_before_the_lease_ends(cluster):
    nodes = cluster.start()
    first = nodes[0]
    code, _ = nodes[2].stop()
    assert code == 0
    stopped = time.monotonic()
    wait(lambda: first.sees(3)["state"] == "stopped", PATIENCE_SECONDS, "node 3 has stopped")
    # The lease was given back: nobody had to wait until it ends.
    assert any(it.startswith("node 3 left") for it in first.events())
    assert not any(it.startswith("the lease of node 3") for it in first.events()), time.monotonic() - stopped


def test_a_paused_node_comes_back_in_a_new_life_and_its_old_one_is_refused(cluster):
    nodes = cluster.start()
    first, third = nodes[0], nodes[2]
    before = third.incarnation()
    third.pause()
    wait(lambda: first.sees(3)["state"] == "lost", PATIENCE_SECONDS, "node 3 is lost")
    time.sleep(LEASE_SECONDS)  # The pause itself, twice the lease.
    third.go_on()
    wait(lambda: third.is_joined() and third.incarnation() > before, PATIENCE_SECONDS, "node 3 is in a new life")
    wait(lambda: cluster.knows_all(first, 3), PATIENCE_SECONDS, "all reach each other")
    assert f"the lease of node 3 ended, incarnation {before}" in first.events()


def test_an_id_in_use_is_refused_and_its_owner_unhurt(cluster):
    nodes = cluster.start()
    before = nodes[1].incarnation()
    other = cluster.node(2, port=free_ports(1)[0], folder="other").begin()
    code = other.process.wait(PATIENCE_SECONDS)
    assert code == 2, other.said()
    assert "node id 2 is in use" in other.said() or "is a voter of this cluster" in other.said(), other.said()
    assert nodes[1].is_joined() and nodes[1].incarnation() == before


def test_nodes_are_drained_and_activated_but_the_last_one_is_not(cluster):
    nodes = cluster.start(count=2) if cluster.etcd else cluster.start()
    first = nodes[0]
    for it in nodes[1:]:
        code, out, err = first.cli("drain", str(it.number))
        assert code == 0, out + err
        wait(lambda it=it: first.sees(it.number)["desired"] == "draining", PATIENCE_SECONDS, "it is draining")
    code, _, err = first.cli("drain", "1")
    assert code == 2 and "last active node" in err, err
    code, _, err = first.cli("drain", "9")
    assert code == 2 and "not a member" in err, err
    code, out, err = first.cli("activate", "2")
    assert code == 0, out + err
    wait(lambda: first.sees(2)["desired"] == "active", PATIENCE_SECONDS, "it is active")


def test_a_decommissioned_node_may_not_come_back(cluster):
    nodes = cluster.start()
    first, third = nodes[0], nodes[2]
    code, out, err = first.cli("decommission", "3")
    assert code == 0, out + err
    assert third.stop()[0] == 0
    third.begin()
    assert third.process.wait(PATIENCE_SECONDS) == 2
    assert "decommissioned" in third.said(), third.said()
