"""The cluster port among strangers: another key, garbage, another cluster."""

import os
import socket

from clusters import PATIENCE_SECONDS
from waiting import wait


def test_a_node_with_another_key_is_refused_on_both_sides(of_voters):
    nodes = of_voters.start()
    key = of_voters.folder / "other-key"
    key.write_text("another key that nobody else has, 9876543210\n")
    stranger = of_voters.node(4, key=key).begin()
    wait(lambda: "cluster keys differ" in stranger.said() or "different clusters" in stranger.said(), PATIENCE_SECONDS, "the stranger is told")
    assert stranger.process.poll() is None, "it waits, for a key may be corrected on the other side"
    said = lambda: any("keys differ" in it.said() or "different clusters" in it.said() for it in nodes)
    wait(said, PATIENCE_SECONDS, "the nodes say it too")
    assert all(it.is_joined() for it in nodes)
    assert nodes[0].sees(4) is None
    assert sum(it.counter("tidemill_cluster_connections_refused_total") for it in nodes) > 0


def test_garbage_closes_its_connection_alone(of_voters):
    nodes = of_voters.start()
    first = nodes[0]
    before = first.counter("tidemill_cluster_handshakes_failed_total")
    for garbage in [b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\x00" * 64, b"\xff" * 65536]:
        with socket.create_connection(("127.0.0.1", first.cluster_port), timeout=PATIENCE_SECONDS) as it:
            it.sendall(garbage)
            it.shutdown(socket.SHUT_WR)
            while it.recv(4096):
                pass
    wait(lambda: first.counter("tidemill_cluster_handshakes_failed_total") > before, PATIENCE_SECONDS, "it is counted")
    assert of_voters.knows_all(first, 3)
    assert first.is_joined()
