"""Records that HTTP acknowledges, and files that a job reads: one set of rules."""

import json
import subprocess

import pytest

from node import binary, clean_environment

GOOD = [
    "g01,host=a v=1 1700000000000000000",
    "g02,host=a v=1,v=2 1700000001000000000",
    "g03 x=00.254 1700000002000000000",
    "g04 x=.5,y=1.,z=-0.0 1700000003000000000",
    "g05 n=9223372036854775807i,m=-9223372036854775808i 1700000004000000000",
    r"my\ meas\,ure,my\ tag=a\ b\,c\=d my\ field=1 1700000006000000000",
    "g08 v=1 -1",
    "g09,b=1,a=2 v=4",
]
BAD = [
    "b01,host=a,host=b v=1", "b02,host= v=1", "b03,host v=1", "b04,=x v=1", "b05 v=9223372036854775808i",
    "b06 v=NaN", r"b08,foo=bar\,host=x v=1", "b09 v=1 1 extra", "b12 v=1 1.5", "b13 v=1 99999999999999999999",
    "b17 v=1.5i", "b18 =1", ",host=a v=1", "b19 v=1e400", "b20,time=a v=1", "b21 measurement=1", "b22,host=a host=1",
]


def run(folder, job, *more, code=0, command="run"):
    (folder / "job.yaml").write_text(job)
    ran = subprocess.run(
        [binary(), command, "job.yaml", *more], cwd=folder, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert ran.returncode == code, (ran.returncode, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


def rows(folder, name="out"):
    return [json.loads(line) for line in (folder / f"{name}.ndjson").read_text().splitlines()]


def job(source):
    sinks = "out: {from: in, file: {path: out.ndjson, format: json}}, bad: {from: dead_letter, file: {path: bad.ndjson, format: json}}"
    return f"name: agree\nsources: {{in: {source}}}\nsinks: {{{sinks}}}\n"


@pytest.mark.parametrize("line", GOOD + BAD)
def test_line_protocol_is_refused_alike(node, name, tmp_path, line):
    (tmp_path / "in.lp").write_text(line + "\n")
    run(tmp_path, job("{file: {path: in.lp, format: influx, schema: {v: double}}}"))
    is_good = line in GOOD
    assert len(rows(tmp_path)) == is_good and len(rows(tmp_path, "bad")) != is_good
    assert node.post(f"/write?db={name}", line).status == (204 if is_good else 400)


def test_a_series_has_one_key_and_a_point_before_1970_a_time(node, name):
    assert node.post(f"/write?db={name}", "m,b=1,a=2 v=1 1\nm,a=2,b=1 v=2 2\nm v=3 -1\nm v=4 -1000001\n").status == 204
    found = node.records(name, "from=earliest&values=text")
    assert sorted(it["key"] for it in found) == ["m", "m", "m,a=2,b=1", "m,a=2,b=1"]
    assert {it["value"]: it["timestamp"] for it in found}["m v=3 -1"] == -2, "-1 says that there is no time"
    assert "m,b=1,a=2 v=1 1" in [it["value"] for it in found]


@pytest.mark.parametrize("line", ["1", "[]", "null", '"x"', '{"a":"\\ud800"}', '{"a":01}', '{"a":1} x', "{" + '"a":{' * 200 + "}" * 201])
def test_json_that_a_job_cannot_read_is_refused(node, name, tmp_path, line):
    node.create(name)
    answer = node.post(f"/streams/{name}", '{"a":1}\n' + line + "\n")
    assert answer.status == 400 and answer.json()["line"] == 2
    done = subprocess.run(
        [binary(), "stream", "produce", name, "--format", "json", "-q", "--bootstrap", f"127.0.0.1:{node.kafka_port}"],
        input=line + "\n", capture_output=True, text=True, timeout=60, env=clean_environment())
    assert done.returncode == 1 and done.stderr == f"error: standard input, line 1: {answer.json()['error']}\n", done
    (tmp_path / "in.ndjson").write_text('{"a":1}\n' + line + "\n")
    run(tmp_path, job("{file: {path: in.ndjson, format: json}}"))
    assert len(rows(tmp_path)) == 1 and len(rows(tmp_path, "bad")) == 1
    assert node.records(name) == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("form,text", [("json", '{"id":1,"name":"Ann"}\n'), ("csv", "id,name\r\n1,Ann\r\n"), ("text", "one\ntwo\n"), ("influx", "m v=1 17\n")])
def test_another_encoding_is_refused_as_that(node, name, tmp_path, encoding, form, text):
    (tmp_path / "in").write_bytes(text.encode(encoding))
    said = run(tmp_path, job(f"{{file: {{path: in, format: {form}}}}}"), code=2)
    assert f"`in` is {encoding[:6].upper()}" in said and "iconv" in said, said
    node.create(name)
    where = ["--bootstrap", f"127.0.0.1:{node.kafka_port}"]
    for more in ([], ["--format", "json"]):
        done = subprocess.run(
            [binary(), "stream", "produce", name, "-q", *more, *where],
            input=text.encode(encoding), capture_output=True, timeout=60, env=clean_environment())
        assert done.returncode == 1 and f"standard input is {encoding[:6].upper()}".encode() in done.stderr
    assert node.records(name) == []


def test_zeros_in_a_file_are_a_bad_record(tmp_path):
    (tmp_path / "in").write_bytes(b'{"id":1}\n' + b"\0" * 4096 + b'\n{"id":2}\n')
    run(tmp_path, job("{file: {path: in, format: json}}"))
    assert [it["id"] for it in rows(tmp_path)] == [1, 2] and len(rows(tmp_path, "bad")) == 1


def test_codes_stay_as_they_are_written(tmp_path):
    (tmp_path / "in.csv").write_text(
        'zip,code,phone,sku,big,huge,price,n\n02134,"007",+4912,1E5,12345678901234567890,12345678901234567890123,1.50,1\n'
        '10115,"100",+1,1e400,12345678901234567891,1,2.25,2\n')
    source = job("{file: {path: in.csv, format: csv}}")
    run(tmp_path, source)
    first, second = rows(tmp_path)
    assert first == {"zip": "02134", "code": "007", "phone": "+4912", "sku": "1E5", "big": 12345678901234567890,
                     "huge": "12345678901234567890123", "price": 1.5, "n": 1}
    assert second["sku"] == "1e400" and second["zip"] == "10115" and second["big"] == 12345678901234567891
    assert rows(tmp_path, "bad") == []
    said = run(tmp_path, source, command="validate")
    assert "guessed from the first records: zip, code, phone, sku, big, huge, price, n" in said
    assert "`zip` is text: a number would not give back `02134`" in said and "`price` is text" not in said
    shown = json.loads(run(tmp_path, source, "--json", command="validate"))
    guessed = {it["column"]: it["kept_as_text"] for it in shown["stages"][0]["guessed"]}
    assert guessed["code"] == "007" and guessed["n"] is None


def test_the_last_of_two_fields_counts(tmp_path):
    (tmp_path / "in.ndjson").write_text(
        '{"id":1,"n":"x","n":1,"o":{"a":"x","a":2}}\n{"id":2,"n":2,"o":{"a":3}}\n{"id":3,"n":[1],"\\u006e":3,"o":{"a":{},"a":4}}\n')
    run(tmp_path, job("{file: {path: in.ndjson, format: json}}"))
    assert [(it["n"], it["o"]["a"]) for it in rows(tmp_path)] == [(1, 2), (2, 3), (3, 4)]
    assert rows(tmp_path, "bad") == []
