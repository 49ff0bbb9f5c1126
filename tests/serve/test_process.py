"""Starting, stopping, and what stands in the way of it."""

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from node import Node, binary, clean_environment, refused
from waiting import wait

FREE = ["--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]


def test_one_line_says_where_it_answers_and_a_signal_stops_it(own):
    for number in (signal.SIGTERM, signal.SIGINT):
        node = own().start()
        assert node.get("/health").json()["status"] == "pass"
        assert len(AdminClient({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}"}).list_topics(timeout=10).brokers) == 1
        code, seconds = node.stop(number)
        assert code == 0 and seconds < 5, node.said()
        assert node.stdout().count("\n") == 1


def test_a_log_that_nobody_reads_costs_its_lines_and_nothing_else(own):
    node = own()
    node.log.touch()
    unread, log = os.pipe()
    os.close(unread)
    with open(node.folder / "out.txt", "wb+") as out:
        node.process = subprocess.Popen(node.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True)
    os.close(log)
    wait(node.is_ready, 30, "ready")
    node.create("s")
    node.append("s", [{"n": 1}])
    assert node.ask("DELETE", "/streams/s").status == 204
    assert node.get("/health").status == 200
    assert node.stop()[0] == 0


def test_it_stops_in_time_under_load(own):
    node = own().start()
    node.create("load", "?streamlets=4")
    done, answers, idle = threading.Event(), [], [node.socket() for _ in range(50)]
    half = node.socket()
    half.sendall(b"POST /streams/load HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")

    def write():
        while not done.is_set():
            try:
                answers.append(node.post("/streams/load", b'{"a":1}\n' * 1000).status)
            except OSError:
                return

    def poll():
        try:
            node.get("/streams/load/records?from=latest&wait=60s", timeout=30)
        except OSError:
            pass

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}", "linger.ms": 1, "message.timeout.ms": 3000})

    def produce():
        while not done.is_set():
            try:
                producer.produce("load", b"x" * 100)
                producer.poll(0)
            except BufferError:
                producer.poll(0.01)

    threads = [threading.Thread(target=it) for it in (write, write, poll, produce)]
    for it in threads:
        it.start()
    wait(lambda: len(answers) > 5, 20, "answers")
    code, seconds = node.stop()
    done.set()
    for it in threads:
        it.join()
    assert code == 0 and seconds < 5, (seconds, node.said())
    assert set(answers) <= {200, 503}, set(answers)
    for it in [half, *idle]:
        it.close()
    acknowledged = answers.count(200) * 1000
    node.start()
    stored = node.get("/streams/load").json()["streamlets"]
    assert sum(it["end_offset"] for it in stored) >= acknowledged > 0


def test_a_restart_keeps_data_offsets_and_the_cluster(own):
    node = own().start()
    node.create("kept", "?streamlets=2&fsync=os")
    node.append("kept", [{"n": n} for n in range(100)], "?key=n")
    before, described = node.records("kept"), node.get("/streams/kept").json()
    cluster = json.loads((node.data / "cluster.json").read_text())["cluster_id"]
    node.stop()
    node.start()
    assert node.records("kept") == before and len(before) == 100
    assert node.get("/streams/kept").json() == described
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}"})
    found = admin.describe_cluster().result(10)
    assert found.cluster_id == cluster and len(cluster) == 22


def test_a_kill_keeps_what_was_acknowledged(own):
    node = own().start()
    node.create("safe")
    acknowledged = 0
    for round_ in range(4):
        counted, lock = [], threading.Lock()

        def write():
            while True:
                try:
                    answer = node.post("/streams/safe", b'{"a":1}\n' * 100, timeout=10)
                except (OSError, http.client.HTTPException):
                    return
                if answer.status == 200:
                    with lock:
                        counted.append(100)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for it in threads:
            it.start()
        wait(lambda: len(counted) > 3 + round_, 20, "answers")
        node.kill()
        for it in threads:
            it.join()
        acknowledged += sum(counted)
        node.start()
        end = node.get("/streams/safe").json()["streamlets"][0]["end_offset"]
        assert end >= acknowledged, f"round {round_}: acknowledged {acknowledged}, there are {end}"
    assert len(node.records("safe")) == node.get("/streams/safe").json()["streamlets"][0]["end_offset"]


def test_a_second_process_on_one_folder_is_refused(own):
    """Fault row 28: two processes on one data folder."""
    node = own().start()
    node.create("mine")
    said, seconds = refused(node.folder, "--data", str(node.data), *FREE)
    assert "in use by another process" in said and "--data" in said and seconds < 2
    assert node.append("mine", [1])["records"] == 1, "the first goes on"
    node.kill()
    node.start()
    assert len(node.records("mine")) == 1


def test_a_port_that_is_taken_is_said_with_its_option(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for option, other in (("--kafka-listen", "--http-listen"), ("--http-listen", "--kafka-listen")):
            said, seconds = refused(tmp_path, "--data", "d", option, address, other, "127.0.0.1:0")
            assert address in said and option in said and "another port" in said and seconds < 2, said
    node = Node(tmp_path, "--data", str(tmp_path / "d")).start()
    assert node.stop()[0] == 0, "what was opened was closed again"


def test_an_address_that_others_reach_needs_leave(tmp_path, own):
    for flags in (["--kafka-listen", "0.0.0.0:0", "--http-listen", "127.0.0.1:0"], ["--kafka-listen", "127.0.0.1:0", "--http-listen", "[::]:0"]):
        said, seconds = refused(tmp_path, "--data", "d", *flags)
        assert "--insecure" in said and "authentication" in said and seconds < 2
        assert not (tmp_path / "d").exists(), "nothing was made"
    node = own("--insecure", "--http-listen", "0.0.0.0:0")
    node.begin()
    wait(lambda: node.stdout().endswith("\n"), 20, "ready")
    assert "http=0.0.0.0:" in node.stdout()
    assert node.stop()[0] == 0


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    said, seconds = refused(tmp_path, "--data", "file", *FREE)
    assert "file" in said and "--data" in said and seconds < 2, said
    said, _ = refused(tmp_path, "--data", "/proc/nowhere", *FREE)
    assert "/proc/nowhere" in said, said
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir()
        locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
        said, _ = refused(tmp_path, "--data", str(locked / "d"), *FREE)
        assert "ermission" in said and "--data" in said, said


def test_a_damaged_cluster_file_is_not_replaced(own):
    node = own().start()
    node.stop()
    (node.data / "cluster.json").write_text("{")
    said, _ = refused(node.folder, "--data", str(node.data), *FREE)
    assert "cluster.json" in said
    assert (node.data / "cluster.json").read_text() == "{"


def test_a_log_that_has_gone_is_not_begun_anew(own):
    node = own().start()
    node.create("s")
    node.append("s", [{"n": 1}])
    node.stop()
    log, kept = node.data / "log", node.data / "kept"
    log.rename(kept)
    for mounted in (False, True):
        if mounted:
            log.mkdir()
        said, _ = refused(node.folder, "--data", str(node.data), *FREE)
        assert "log/streams is not there" in said and "cluster.json" in said, said
        assert not list(log.iterdir()) if mounted else not log.exists()
    log.rmdir()
    kept.rename(log)
    node.start()
    assert [it["value"] for it in node.records("s")] == [{"n": 1}]


def test_a_folder_where_a_file_should_be_is_told_with_what_to_do(own):
    node = own().start()
    node.create("s")
    node.append("s", [{"n": 1}])
    node.stop()
    for name in ("broker.redb.lock", "log/meta"):
        file, kept = node.data / name, node.data / "kept"
        file.rename(kept)
        file.mkdir()
        said, _ = refused(node.folder, "--data", str(node.data), *FREE)
        assert name in said and "move that folder away" in said, said
        file.rmdir()
        kept.rename(file)
    node.start()
    assert [it["value"] for it in node.records("s")] == [{"n": 1}]


FIFTY_RECORDS = ('{"v":"' + "x" * 994 + '"}\n') * 50


def written_until_refused(node, stream):
    """How many records there is room for, and what is said to those for which there is none."""
    written = 0
    for _ in range(400):
        answer = node.post(f"/streams/{stream}", FIFTY_RECORDS)
        if answer.status != 200:
            break
        written += 50
    return written + sum(it["last_offset"] - it["first_offset"] + 1 for it in answer.json()["appended"]), answer


def test_files_that_may_not_be_longer_refuse_writes_and_end_nothing(own):
    node = own("--recycled", "0B")
    plain = node.command
    # Of 512 bytes each.
    node.command = lambda: ["sh", "-c", 'ulimit -f 6144 && exec "$@"', "sh", *plain()]
    node.start()
    node.create("s")
    written, answer = written_until_refused(node, "s")
    assert answer.status >= 500 and "large" in answer.json()["error"], answer.body
    assert node.get("/health").status == 200
    assert len(node.records("s")) == written > 1_000
    assert node.stop()[0] == 0
    node.command = plain
    node.start()
    assert len(node.records("s")) == written, "nothing that was acknowledged is lost"
    assert node.post("/streams/s", FIFTY_RECORDS).status == 200


def test_data_of_another_cluster_are_refused(own):
    node = own("--cluster-id", "mine").start()
    node.stop()
    said, _ = refused(node.folder, "--data", str(node.data), "--cluster-id", "yours", *FREE)
    assert "`mine`" in said and "`yours`" in said


def test_old_records_go_by_themselves(own):
    node = own("--retention-every", "200ms").start()
    node.create("short", "?retention_time=500ms&segment_bytes=64KiB")
    for _ in range(3):
        node.append("short", ["x" * 1000] * 70)
    start = lambda: node.get("/streams/short").json()["streamlets"][0]["start_offset"]
    wait(lambda: start() > 0, 20, "the start moves")
    answer = node.get("/streams/short/records?from=0&streamlet=0")
    assert answer.status == 416 and answer.json()["start_offset"] == start()


def test_what_is_appended_over_http_wakes_kafka_readers_and_the_other_way_round(own):
    node = own().start()
    node.create("both")
    servers = {"bootstrap.servers": f"127.0.0.1:{node.kafka_port}"}
    consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20000})
    consumer.assign([TopicPartition("both", 0, 0)])
    assert consumer.poll(1) is None
    began = time.monotonic()
    node.append("both", [{"k": "a", "v": 1}], "?key=k")
    message = consumer.poll(15)
    assert message.error() is None and message.key() == b"a" and json.loads(message.value()) == {"k": "a", "v": 1}
    assert time.monotonic() - began < 10, "it did not wait for the end of the poll"
    consumer.close()

    found = []
    reader = threading.Thread(target=lambda: found.append(node.get("/streams/both/records?from=1&wait=30s")))
    reader.start()
    wait(lambda: node.metrics()["tidemill_http_readers_waiting"] == 1, 10, "the reader waits")
    producer = Producer({**servers, "compression.type": "zstd"})
    producer.produce("both", value=b'"\xc3\xa4"', key=b"k", headers=[("h", b"v")])
    producer.flush(10)
    reader.join(30)
    (line,) = found[0].lines()
    assert (line["offset"], line["key"], line["value"], line["headers"]) == (1, "k", "ä", [["h", "v"]])
    assert found[0].next == "0:2"


def test_help_has_every_setting_in_groups():
    text = subprocess.run([binary(), "serve", "--help"], capture_output=True, text=True, check=True, env=clean_environment()).stdout
    text = " ".join(text.split())
    for word in ("Node:", "Addresses:", "Storage:", "--kafka-listen <ADDR>", "--fsync <WHEN>", "[default: 127.0.0.1:8088]", "TIDEMILL_KAFKA_LISTEN", "--config <FILE>"):
        assert word in text, word


def test_a_full_disk_is_said_and_writes_go_on_when_there_is_room(own, tmp_path):
    """Fault row 14: the disk is full, and then it is not."""
    place = tmp_path / "small"
    place.mkdir()
    node = own("--data", str(place / "data"), "--segment-bytes", "64KiB", "--recycled", "0B")
    plain = node.command
    # A file system of its own, which only this process sees.
    node.command = lambda: ["unshare", "-Urm", "sh", "-c", f'mount -t tmpfs -o size=8m tmpfs {place} && exec "$@"', "sh", *plain()]
    node.start()
    node.create("big")
    node.create("rest")
    written, answer = written_until_refused(node, "big")
    assert answer.status == 507 and "room" in answer.json()["error"], answer.body
    assert len(node.records("big")) == written > 1_000, "nothing that was acknowledged is lost"
    assert node.get("/health").status == 200, "a full disk is no failure of the node"
    assert node.metrics()["tidemill_disk_free_bytes"] < 1 << 20
    assert node.ask("DELETE", "/streams/big").status == 204
    assert wait(lambda: node.post("/streams/rest", FIFTY_RECORDS).status == 200, 10, "room again")
    assert node.stop()[0] == 0
