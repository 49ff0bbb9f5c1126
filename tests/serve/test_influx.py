"""Real clients of InfluxDB write to a node; and what they do not send."""

import gzip
import json
import time

import pytest
from influxdb import InfluxDBClient as Client1
from influxdb.exceptions import InfluxDBClientError
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS, WriteOptions
from influxdb_client.rest import ApiException


def lines(node, stream):
    return [(it["key"], it["value"], it["timestamp"]) for it in node.records(stream, "from=earliest&values=text")]


@pytest.fixture
def client1(node):
    client = Client1("127.0.0.1", node.http_port, database="none")
    yield client
    client.close()


@pytest.mark.parametrize("gzipped", [False, True])
def test_the_client_of_version_1(node, name, gzipped):
    client = Client1("127.0.0.1", node.http_port, gzip=gzipped)
    assert client.ping().startswith("1.")
    client.create_database(name)
    assert {"name": name} in client.get_list_database()
    point = {"measurement": "cpu load", "tags": {"host": "a,b"}, "fields": {"value": 0.5, "n": 3, "text": 'say "x"'}, "time": "2024-01-01T00:00:00Z"}
    assert client.write_points([point], database=name)
    assert client.write_points([{"measurement": "m", "fields": {"v": 1.0}, "time": 1_700_000_000}], database=name, time_precision="s")
    first, second = lines(node, name)
    assert first[0] == r"cpu\ load,host=a\,b" and first[1].endswith(" 1704067200000000000") and first[2] == 1_704_067_200_000
    assert second == ("m", "m v=1.0 1700000000000000000", 1_700_000_000_000)
    client.close()


def test_a_bad_line_is_told_to_the_client_of_version_1_and_the_good_ones_are_written(node, name, client1):
    with pytest.raises(InfluxDBClientError) as error:
        client1.write(["good v=1 1000000", "bad", "good v=2 2000000"], params={"db": name}, protocol="line")
    assert error.value.code == 400 and "line 2" in str(error.value.content) and "dropped=1" in str(error.value.content)
    assert [it[1] for it in lines(node, name)] == ["good v=1 1000000", "good v=2 2000000"]


def test_the_client_of_version_2(node, name):
    with InfluxDBClient(node.url, token="any", org="o", enable_gzip=True) as client:
        assert client.ping()
        assert client.health().status == "pass"
        write = client.write_api(write_options=SYNCHRONOUS)
        at = time.time_ns() // 1_000_000
        for number in range(10):
            write.write(name, "o", Point("temperature").tag("place", "Delft").field("celsius", 20.5 + number).time(at + number, WritePrecision.MS), write_precision=WritePrecision.MS)
        found = lines(node, name)
        assert [it[0] for it in found] == ["temperature,place=Delft"] * 10
        assert found[3][1] == f"temperature,place=Delft celsius=23.5 {(at + 3) * 1_000_000}" and found[3][2] == at + 3
        with pytest.raises(ApiException) as error:
            write.write(name, "o", ["ok v=1", "bad line here,", "ok v=2"])
        assert error.value.status == 400 and "line 2" in json.loads(error.value.body)["message"]
        assert len(lines(node, name)) == 12


def test_a_text_keeps_its_line_breaks(node, name):
    text = 'Traceback:\n  File "x", line 1\nfake,h=b v=1\nValueError'
    with InfluxDBClient(node.url, token="any", org="o") as client:
        write = client.write_api(write_options=SYNCHRONOUS)
        write.write(name, "o", [Point("log").tag("h", "a").field("msg", text).time(1), Point("log").field("n", 1).time(2)])
    escaped = text.replace('"', '\\"')
    assert [it[1] for it in lines(node, name)] == [f'log,h=a msg="{escaped}" 1', "log n=1i 2"]


def test_a_line_that_is_too_long_takes_no_other_with_it(node, name, client1):
    with pytest.raises(InfluxDBClientError) as error:
        client1.write(["a v=1 1", f'log msg="{"x" * 1_100_000}" 1', "b v=2 2"], params={"db": name}, protocol="line")
    assert error.value.code == 400 and "line 2" in str(error.value.content) and "written=2" in str(error.value.content)
    assert [it[1] for it in lines(node, name)] == ["a v=1 1", "b v=2 2"]


def test_the_batching_client_of_version_2(node, name):
    failed = []
    with InfluxDBClient(node.url, token="any", org="o") as client:
        options = WriteOptions(batch_size=500, flush_interval=200)
        with client.write_api(write_options=options, error_callback=lambda *it: failed.append(it)) as write:
            for number in range(5_000):
                write.write(name, "o", f"m,k={number % 7} n={number}i {number + 1}")
    assert not failed
    found = lines(node, name)
    assert sorted(int(it[1].rsplit(" ", 1)[1]) for it in found) == list(range(1, 5_001))


def test_names_and_what_is_missing(node, name):
    line = b"m v=1 1\n"
    assert node.post(f"/write?db={name}&rp=week", line).status == 204 and len(lines(node, f"{name}.week")) == 1
    assert node.post(f"/write?db={name}&rp=autogen&u=a&p=b&consistency=any", line).status == 204 and len(lines(node, name)) == 1
    assert node.post(f"/api/v2/write?org=o&bucket={name}%2Fweek", line).status == 204 and len(lines(node, f"{name}.week")) == 2
    assert node.post("/write", line).status == 400 and node.post("/api/v2/write?org=o", line).status == 400
    assert node.post("/write?db=..", line).status == 400 and node.post("/write?db=a%20b", line).status == 400
    assert node.post(f"/write?db={name}&precision=y", line).status == 400
    assert node.post(f"/write?db={name}", b"# nothing\n\n").status == 204
    before = time.time_ns()
    assert node.post(f"/write?db={name}", gzip.compress(b"now v=1"), headers={"Content-Encoding": "gzip"}).status == 204
    assert before - 10**9 < int(lines(node, name)[-1][1].rsplit(" ", 1)[1]) < time.time_ns() + 10**9
    assert node.get("/query?q=CREATE%20DATABASE%20x").status == 400, "nothing is changed by GET"
    assert node.get("/query?q=SELECT%201").status == 400 and node.get("/query").status == 400


def test_a_database_is_not_made_if_clients_may_not(own):
    node = own("--auto-create=false").start()
    assert node.post("/write?db=x", b"m v=1\n").status == 404
    node.create("x")
    assert node.post("/write?db=x", b"m v=1\n").status == 204
