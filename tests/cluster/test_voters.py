"""Nodes that keep the coordinator's table themselves."""

import shutil

from clusters import PATIENCE_SECONDS
from waiting import wait


def test_all_killed_at_once_are_the_same_cluster_again(of_voters):
    nodes = of_voters.start()
    identity, newest = nodes[0].status()["cluster_id"], max(it.incarnation() for it in nodes)
    for it in nodes:
        it.kill()
    for it in nodes:
        it.begin()
    for it in nodes:
        wait(it.is_ready, PATIENCE_SECONDS, f"node {it.number} is back")
        wait(lambda it=it: of_voters.knows_all(it, 3), PATIENCE_SECONDS, "it knows all")
        assert it.status()["cluster_id"] == identity
        assert it.incarnation() > newest


def test_two_of_three_go_on_and_one_alone_waits(of_voters):
    nodes = of_voters.start()
    first = nodes[0]
    nodes[2].kill()
    wait(lambda: first.sees(3)["state"] == "lost", PATIENCE_SECONDS, "two of three end the lease")
    assert first.cli("drain", "2")[0] == 0
    nodes[1].kill()
    wait(lambda: first.status()["state"] in ("waiting", "fenced"), PATIENCE_SECONDS, "one alone waits")
    # It goes on with its own work.
    assert first.get("/health").status == 200
    first.create("alone")
    first.append("alone", [{"a": 1}])
    code, _, err = first.cli("activate", "2")
    assert code != 0, err
    for it in nodes[1:]:
        it.begin()
    for it in nodes:
        wait(it.is_joined, PATIENCE_SECONDS, f"node {it.number} is a member again")


def test_a_voter_that_lost_its_data_is_refused_by_name(of_voters):
    nodes = of_voters.start()
    third = nodes[2]
    third.kill()
    shutil.rmtree(third.data)
    third.begin()
    assert third.process.wait(PATIENCE_SECONDS) == 2
    assert "node 3 is a voter of this cluster" in third.said(), third.said()
    assert all(it.is_joined() for it in nodes[:2])


def test_a_fourth_node_asks_the_voters(of_voters):
    nodes = of_voters.start()
    fourth = of_voters.node(4).begin()
    wait(fourth.is_ready, PATIENCE_SECONDS, "node 4 is ready")
    wait(lambda: of_voters.knows_all(nodes[0], 4), PATIENCE_SECONDS, "node 1 knows it")
    assert fourth.status()["cluster_id"] == nodes[0].status()["cluster_id"]
    assert fourth.stop()[0] == 0


def test_nobody_founds_a_cluster_alone(of_voters):
    first = of_voters.node(1).begin()
    wait(lambda: "founded once all answer" in first.said(), PATIENCE_SECONDS, "it says what it waits for")
    for port in of_voters.ports[1:]:
        assert f"127.0.0.1:{port}" in first.said()
    assert first.stop()[0] in (0, 2), "a node that waits can be stopped"
