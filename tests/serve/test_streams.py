"""Streams over HTTP: made, described, written, read, deleted."""

import gzip
import json
import threading
import time

import pytest

from waiting import wait


def test_a_stream_is_made_described_listed_and_deleted(node, name):
    made = node.create(name, "?streamlets=3&retention_time=1d&segment_bytes=1MiB&fsync=os")
    assert made == node.get(f"/streams/{name}").json()
    assert [it["streamlet"] for it in made["streamlets"]] == [0, 1, 2]
    assert (made["retention_time"], made["retention_bytes"], made["segment_bytes"], made["fsync"]) == ("1d", None, 1 << 20, "os")
    again = node.ask("PUT", f"/streams/{name}")
    assert again.status == 409 and "exists" in again.json()["error"]
    assert name in [it["name"] for it in node.get("/streams").json()["streams"]]
    assert node.ask("DELETE", f"/streams/{name}").status == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/records"), ("GET", "?from=earliest")):
        assert node.ask(method, f"/streams/{name}{path}").status == 404
    assert node.post(f"/streams/{name}", "1\n").status == 404


@pytest.mark.parametrize("query", ["streamlets=0", "streamlets=x", "retention_time=1", "segment_bytes=1", "fsync=maybe", "streamlet=1", "active_groups=65"])
def test_a_wrong_setting_is_refused(node, name, query):
    answer = node.ask("PUT", f"/streams/{name}?{query}")
    assert answer.status == 400 and query.split("=")[0] in answer.json()["error"]
    assert node.get(f"/streams/{name}").status == 404


@pytest.mark.parametrize("body", ['{"streamlets":4}', " ", b"\x1f\x8b"])
def test_settings_in_a_body_are_refused_and_not_left_aside(node, name, body):
    answer = node.ask("PUT", f"/streams/{name}", body=body)
    assert answer.status == 400 and "?streamlets=4" in answer.json()["error"]
    assert node.get(f"/streams/{name}").status == 404
    assert node.ask("PUT", f"/streams/{name}", body="").status == 201, "an empty one is none"


@pytest.mark.parametrize("bad", ["..", ".", "%2e%2e%2fx", "a%2Fb", "a%00b", "a b".replace(" ", "%20"), "%C3%A4", "x" * 250])
def test_a_name_that_wants_to_escape_is_refused(node, bad):
    for method in ("PUT", "DELETE", "POST"):
        assert node.ask(method, f"/streams/{bad}", body="1\n" if method == "POST" else None).status in (400, 404, 405)


def test_each_line_is_a_record(node, name):
    node.create(name)
    lines = [{"a": 1}, [1, 2], "text", 5, None, True, {"ä": "\n"}]
    answer = node.append(name, lines)
    assert answer == {"records": 7, "appended": [{"streamlet": 0, "first_offset": 0, "last_offset": 6}]}
    found = node.records(name)
    assert [it["value"] for it in found] == lines and [it["offset"] for it in found] == list(range(7))
    assert all(it["key"] is None and it["streamlet"] == 0 and abs(it["timestamp"] / 1000 - time.time()) < 60 for it in found)
    # The short form, and gzip.
    assert node.post(f"/streams/{name}", gzip.compress(b'{"z":1}\r\n\n{"z":2}'), headers={"Content-Encoding": "gzip"}).json()["records"] == 2
    assert [it["value"] for it in node.get(f"/streams/{name}?from=7").lines()] == [{"z": 1}, {"z": 2}]
    assert len(node.get(f"/streams/{name}", headers={"Accept": "application/x-ndjson"}).lines()) == 9
    assert node.post(f"/streams/{name}", b"").json() == {"records": 0, "appended": []}


def test_lines_of_text_and_forms_of_values(node, name):
    node.create(name)
    assert node.post(f"/streams/{name}?format=text", b"plain\n{\"a\":1}\n\xff\xfe\n").json()["records"] == 3
    read = lambda form: [(it.get("value"), it.get("value_base64")) for it in node.get(f"/streams/{name}/records?values={form}").lines()]
    assert read("json") == [("plain", None), ({"a": 1}, None), (None, "//4=")]
    assert read("text") == [("plain", None), ('{"a":1}', None), (None, "//4=")]
    assert read("base64") == [(None, "cGxhaW4="), (None, "eyJhIjoxfQ=="), (None, "//4=")]


def test_keys_choose_the_streamlet_as_kafka_does(node, name):
    node.create(name, "?streamlets=4")
    records = [{"k": f"key{n % 20}", "n": n} for n in range(500)]
    answer = node.append(name, records, "?key=k")
    assert answer["records"] == 500 and sum(it["last_offset"] - it["first_offset"] + 1 for it in answer["appended"]) == 500
    found = node.records(name)
    assert sorted(it["value"]["n"] for it in found) == list(range(500))
    of_key = {}
    for it in found:
        assert it["key"] == it["value"]["k"]
        of_key.setdefault(it["key"], []).append((it["streamlet"], it["value"]["n"]))
    for places in of_key.values():
        assert len({streamlet for streamlet, _ in places}) == 1
        assert [n for _, n in places] == sorted(n for _, n in places)
    assert len({it["streamlet"] for it in found}) > 1
    assert answer["without_key"] == 0
    assert node.append(name, [{"k": 1}, {"k": None}, {"n": 2}], "?key=k")["without_key"] == 2
    assert "without_key" not in node.append(name, [1])
    only = node.append(name, [1, 2], "?streamlet=2")
    assert {it["streamlet"] for it in only["appended"]} == {2}
    assert node.post(f"/streams/{name}?streamlet=4", "1\n").status == 404


def test_a_bad_line_is_told_and_nothing_is_written(node, name):
    node.create(name, "?max_chunk_bytes=2KiB")
    answer = node.post(f"/streams/{name}", b'{"a":1}\n\n{"a":\n{"a":3}\n')
    assert answer.status == 400 and answer.json()["line"] == 3 and "JSON" in answer.json()["error"]
    long = node.post(f"/streams/{name}", b'{}\n{"a":"' + b"x" * 3000 + b'"}\n')
    assert long.status == 413 and long.json()["line"] == 2
    assert node.post(f"/streams/{name}?key=a&format=text", b"x\n").status == 400
    unknown = node.post(f"/streams/{name}?kee=a", b"1\n")
    assert unknown.status == 400 and "did you mean `key`?" in unknown.json()["error"]
    assert node.post(f"/streams/{name}", b"1\n", headers={"Content-Encoding": "br"}).status == 415
    assert node.records(name) == []


def test_reading_goes_on_where_it_stopped(node, name):
    node.create(name, "?streamlets=3")
    for streamlet in range(3):
        node.append(name, [[streamlet, n] for n in range(50)], f"?streamlet={streamlet}")
    found, place, rounds = [], "earliest", 0
    while True:
        answer = node.get(f"/streams/{name}/records?from={place}&max_bytes=1000")
        if not answer.body:
            break
        assert len(answer.body) < 1200
        found += [it["value"] for it in answer.lines()]
        place, rounds = answer.next, rounds + 1
    assert rounds > 5 and sorted(found) == [[s, n] for s in range(3) for n in range(50)]
    # Nobody waits for ever while another streamlet has more: the first rounds have all of them.
    assert {s for s, _ in found[: 60]} == {0, 1, 2}
    one = node.get(f"/streams/{name}/records?from=48&streamlet=1").lines()
    assert [it["value"] for it in one] == [[1, 48], [1, 49]]
    assert node.get(f"/streams/{name}/records?from=latest").body == b""
    assert node.get(f"/streams/{name}/records?from=5").status == 400, "of which streamlet?"
    for bad in ("from=x", "from=-1", "from=0:1,0:2", "from=9:1", "wait=1h", "wait=5", "max_bytes=0", "max_bytes=1GiB", "values=xml", "form=1", "streamlet=x"):
        assert node.get(f"/streams/{name}/records?{bad}").status == 400, bad
    assert node.get(f"/streams/{name}/records?streamlet=3").status == 404
    beyond = node.get(f"/streams/{name}/records?from=0:51")
    assert beyond.status == 416 and beyond.json()["end_offset"] == 50


def test_a_reader_waits_for_records(node, name):
    node.create(name, "?streamlets=2")
    began = time.monotonic()
    assert node.get(f"/streams/{name}/records?wait=300ms").body == b""
    assert 0.25 < time.monotonic() - began < 10
    for streamlet in (0, 1):
        found = []
        reader = threading.Thread(target=lambda: found.append((node.get(f"/streams/{name}/records?from=latest&wait=50s"), time.monotonic())))
        reader.start()
        wait(lambda: node.metrics()["tidemill_http_readers_waiting"] == 1, 10, "the reader")
        sent = time.monotonic()
        node.append(name, ["news"], f"?streamlet={streamlet}")
        reader.join(30)
        (answer, at), = found
        assert [it["value"] for it in answer.lines()] == ["news"] and at - sent < 5


def test_a_reader_of_a_deleted_stream_does_not_wait(node, name):
    node.create(name)
    found = []
    reader = threading.Thread(target=lambda: found.append(node.get(f"/streams/{name}/records?wait=50s")))
    reader.start()
    wait(lambda: node.metrics()["tidemill_http_readers_waiting"] == 1, 10, "the reader")
    node.ask("DELETE", f"/streams/{name}")
    reader.join(20)
    assert found and found[0].status == 404


def test_uncommitted_and_aborted_records_are_not_read(node, name):
    from confluent_kafka import Producer

    node.create(name)
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.kafka_port}", "transactional.id": name})
    producer.init_transactions(20)
    for value, end in ((b'"one"', "commit"), (b'"two"', "abort"), (b'"three"', "commit")):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush(10)
        before = [it["value"] for it in node.records(name)]
        assert json.loads(value) not in before, "not before its end"
        producer.commit_transaction(20) if end == "commit" else producer.abort_transaction(20)
    wait(lambda: [it["value"] for it in node.records(name)] == ["one", "three"], 10, "committed records")


def test_health_metrics_and_the_document(node, name):
    health = node.get("/health")
    assert health.status == 200 and health.json()["status"] == "pass"
    before = node.metrics()
    node.create(name)
    node.append(name, [{"n": n} for n in range(10)])
    node.records(name)
    after = node.metrics()
    rose = lambda figure: after[figure] - before[figure]
    assert rose("tidemill_log_streams") == 1 and rose("tidemill_log_offsets") == 10
    assert rose("tidemill_http_written_records_total") == 10 and rose("tidemill_http_read_records_total") == 10
    assert after["tidemill_process_resident_memory_bytes"] > 1 << 20 and after["tidemill_process_open_fds"] > 3
    assert after["tidemill_disk_free_bytes"] <= after["tidemill_disk_bytes"] and after["tidemill_process_cpu_seconds_total"] > 0
    text = node.get("/metrics").body.decode()
    assert text.endswith("# EOF\n")
    document = node.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0" and "/streams/{name}/records" in document["paths"]
    assert node.get("/nothing").status == 404 and "error" in node.get("/nothing").json()
    assert node.ask("PATCH", "/streams").status == 405
    assert node.ask("HEAD", "/health").status == 200


def test_a_place_that_has_gone_is_told_though_another_streamlet_always_has_more(node, name):
    node.create(name, "?streamlets=2")
    for n in range(50):
        node.append(name, [n], "?streamlet=0")
    place = "0:0,1:7"
    for _ in range(3):
        answer = node.get(f"/streams/{name}/records?from={place}&max_bytes=20")
        if answer.status == 416:
            break
        place = answer.next
    assert answer.status == 416 and answer.json()["streamlet"] == 1, answer.body
