"""Bytes and clients that mean no good: they get an answer or a closed connection, and nobody else notices."""

import gzip
import random
import resource
import socket
import threading
import time

import pytest

from waiting import wait


def closed(one, seconds=30):
    """Whether the node ends the connection, whatever it says before."""
    one.settimeout(seconds)
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def said(one, request, seconds=30):
    one.settimeout(seconds)
    try:
        one.sendall(request)
        return one.recv(65536)
    except ConnectionError:
        return b""


@pytest.mark.parametrize("request_", [
    b"\x00" * 100,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 200,
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /streams/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /streams/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /streams/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
], ids=range(11))
def test_garbage_is_refused(node, request_):
    with node.socket() as one:
        answer = said(one, request_)
        assert answer == b"" or answer.split(b" ")[1][:1] == b"4", answer[:100]


def test_random_bytes_hurt_nobody(node):
    generator = random.Random(7)
    for _ in range(200):
        with node.socket() as one:
            base = b"POST /streams/x?key=a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\n1\n2"
            bytes_ = bytearray(base if generator.random() < 0.7 else generator.randbytes(generator.randrange(1, 2000)))
            for _ in range(generator.randrange(0, 6)):
                bytes_[generator.randrange(len(bytes_))] = generator.randrange(256)
            try:
                one.sendall(bytes(bytes_))
                one.shutdown(socket.SHUT_WR)
            except OSError:
                continue
            assert closed(one)


def test_a_length_that_is_claimed_takes_no_memory(node, name):
    node.create(name)
    before = node.rss_bytes()
    sockets = []
    for _ in range(100):
        one = node.socket()
        one.sendall(f"POST /streams/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {16 << 20}\r\n\r\n1".encode())
        sockets.append(one)
    assert node.append(name, [1])["records"] == 1
    assert node.rss_bytes() - before < 64 << 20
    large = node.ask("POST", f"/streams/{name}", headers={"Content-Length": str(1 << 40)})
    assert large.status == 413 and large.json()["limit_bytes"] == 16 << 20
    for one in sockets:
        one.close()


def test_a_refusal_is_heard_by_a_client_that_still_sends(node, name):
    node.create(name)
    body = b"1\n" * (12 << 20)
    for path, headers, status in ((f"/streams/{name}", {}, 413), (f"/streams/{name}-not-there", {}, 404), (f"/streams/{name}?kee=a", {}, 400), ("/nothing", {}, 404), (f"/streams/{name}", {"Host": "evil.example"}, 403)):
        for _ in range(5):
            answer = node.post(path, body, headers=headers)
            assert answer.status == status and "error" in answer.json()


def test_slow_heads_and_bodies_have_deadlines(own):
    node = own("--http-idle-time", "1s", "--http-transfer-time", "1s").start()
    node.create("s")
    begun = [b"", b"G", b"GET /health HTTP/1.1\r\nHost: x\r\nX-A", b"POST /streams/s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n1"]
    sockets = [node.socket() for _ in range(40)]
    began = time.monotonic()
    for index, one in enumerate(sockets):
        one.sendall(begun[index % 4])

    def drip():
        # One byte every now and then is not enough to stay.
        while time.monotonic() - began < 5:
            for index, one in enumerate(sockets):
                if index % 4:
                    try:
                        one.send(b"x")
                    except OSError:
                        pass
            time.sleep(0.2)

    dripping = threading.Thread(target=drip)
    dripping.start()
    assert node.append("s", [1])["records"] == 1
    for one in sockets:
        assert closed(one, 10)
    assert time.monotonic() - began < 8
    dripping.join()
    wait(lambda: node.metrics()["tidemill_http_connections"] == 1, 10, "all are gone")


def test_points_that_come_too_slowly_may_come_again(own):
    node = own("--http-transfer-time", "1s").start()
    for path in ("/write?db=d", "/api/v2/write?bucket=b"):
        with node.socket() as one:
            one.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nm v".encode())
            one.settimeout(10)
            answer = one.recv(4096)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in answer.lower() and b"not whole in time" in answer, answer


def test_a_reader_that_takes_nothing_is_cut(own):
    node = own("--http-transfer-time", "1s", "--http-idle-time", "3s").start()
    node.create("s")
    for _ in range(12):
        node.append("s", ["x" * 1000] * 900)
    sockets = []
    for _ in range(20):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", node.http_port))
        one.sendall(b"GET /streams/s/records?max_bytes=8MiB HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        sockets.append(one)
    assert node.metrics()["tidemill_http_connections"] > 1
    wait(lambda: node.metrics()["tidemill_http_connections"] == 1, 30, "slow readers are cut")
    assert len(node.get("/streams/s/records").lines()) > 100
    for one in sockets:
        one.close()


def test_a_bomb_is_refused_and_takes_little(node, name):
    node.create(name)
    bomb = gzip.compress(b"1\n" * (256 << 20), 9)
    before = node.rss_bytes()
    answers = []

    def send():
        answers.append(node.post(f"/streams/{name}", bomb, headers={"Content-Encoding": "gzip"}).status)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert set(answers) <= {413, 503} and 413 in answers, answers
    assert node.rss_bytes() - before < 400 << 20
    assert node.post("/write?db=" + name, bomb, headers={"Content-Encoding": "gzip"}).status == 413
    cut = gzip.compress(b"1\n" * 1000)[:-5]
    assert node.post(f"/streams/{name}", cut, headers={"Content-Encoding": "gzip"}).status == 400
    assert node.records(name) == []


def test_many_bodies_at_once_stay_within_the_bound(own):
    node = own("--http-bodies-bytes", "32MiB").start()
    node.create("s")
    before, answers = node.rss_bytes(), []
    body = b'{"v":"' + b"x" * 994 + b'"}\n'
    body *= 8_000

    def send():
        try:
            answers.append(node.post("/streams/s", body).status)
        except OSError:
            answers.append(503)

    threads = [threading.Thread(target=send) for _ in range(24)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert set(answers) <= {200, 503}, answers
    wait(lambda: node.post("/streams/s", b"{}\n").status == 200, 10, "room again")
    stored = node.get("/streams/s").json()["streamlets"][0]["end_offset"]
    assert stored == answers.count(200) * 8_000 + 1
    # The log keeps what was appended in memory, too: its own bound is 256 MiB.
    assert node.rss_bytes() - before < (32 + 256 + 150) << 20


def test_ten_thousand_idle_connections(own):
    node = own("--http-idle-time", "2m").start()
    node.create("s")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = 10_000
    assert hard > count + 1_000, "this test needs more open files: raise the hard limit (ulimit -Hn)"
    before, sockets = node.rss_bytes(), []
    for _ in range(count):
        one = socket.socket()
        one.connect(("127.0.0.1", node.http_port))
        sockets.append(one)
    wait(lambda: node.metrics()["tidemill_http_connections"] > count, 30, "all are open")
    began = time.monotonic()
    assert node.append("s", [1])["records"] == 1 and len(node.records("s")) == 1
    assert time.monotonic() - began < 5
    assert node.rss_bytes() - before < 400 << 20
    code, seconds = node.stop()
    assert code == 0 and seconds < 5
    for one in sockets:
        one.close()


def test_a_foreign_name_or_origin_is_refused(node, name):
    node.create(name)
    host = f"127.0.0.1:{node.http_port}"
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{node.http_port}"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        for method, path in (("POST", f"/streams/{name}"), ("DELETE", f"/streams/{name}"), ("PUT", f"/streams/{name}x"), ("POST", "/write?db=x")):
            answer = node.ask(method, path, body="1\n", headers=headers)
            assert answer.status == 403 and "error" in answer.json(), (headers, method)
    assert node.get(f"/streams/{name}", headers={"Host": "evil.example"}).status == 403, "nor is anything told"
    assert node.get("/health", headers={"Host": "prometheus-target"}).status == 200
    assert node.get("/metrics", headers={"Host": "prometheus-target"}).status == 200
    assert node.post(f"/streams/{name}", "{}\n", headers={"Origin": f"http://{host}"}).status == 200
    assert node.post(f"/streams/{name}", "{}\n", headers={"Host": "localhost"}).status == 200
    assert len(node.records(name)) == 2


def test_names_can_be_allowed(own):
    node = own("--http-hosts", "tidemill,other.example").start()
    node.create("s")
    for host, status in (("tidemill:8080", 200), ("OTHER.example", 200), ("evil.example", 403)):
        assert node.post("/streams/s", "{}\n", headers={"Host": host}).status == status, host
