"""The command line against a node: what it writes where, and how it ends."""

import json
import subprocess

import pytest

from node import binary, clean_environment


def tidemill(node, *line, code=0):
    """Runs a command of `stream` or `job`; gives what it wrote to standard output and to standard error."""
    where = ["--bootstrap", f"127.0.0.1:{node.kafka_port}"] if line[0] == "stream" else ["--http", f"127.0.0.1:{node.http_port}"]
    done = subprocess.run(
        [binary(), *line, *where], capture_output=True, text=True, timeout=60, env=clean_environment(), stdin=subprocess.DEVNULL)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


@pytest.mark.parametrize("more", [[], ["-q"], ["--group", "readers"]])
def test_following_ends_with_its_reader_though_nothing_comes(node, name, more):
    node.create(name)
    node.append(name, list(range(10)))
    line = [binary(), "stream", "consume", name, "--follow", *more, "--bootstrap", f"127.0.0.1:{node.kafka_port}"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
    try:
        assert [process.stdout.readline() for _ in range(2)] == ["0\n", "1\n"]
        process.stdout.close()
        assert process.wait(20) == 0, process.stderr.read()
    finally:
        process.kill()
    assert "error" not in process.stderr.read()


def test_a_line_that_is_no_record_says_why(node, name):
    node.create(name)
    where = ["--bootstrap", f"127.0.0.1:{node.kafka_port}"]

    def produced(lines, *more):
        done = subprocess.run(
            [binary(), "stream", "produce", name, "--format", "json", "-q", *more, *where],
            input=lines, capture_output=True, text=True, timeout=60, env=clean_environment())
        assert done.returncode == 1, done
        return done.stderr

    assert produced('{"a":1}\n{"a":\n') == "error: standard input, line 2: not JSON: expected a value, but the record ends\n"
    assert "line 3: not JSON: expected an object, found `x` at byte 0 of it; records that are no objects are written as text" in produced("\n  \nx\n")
    for line in ('{"a":null}', '{"b":1}'):
        assert "line 1: there is no field `a`, the key, or it is null" in produced(f"{line}\n", "--key", "a")
    assert [it["value"] for it in node.records(name)] == [{"a": 1}], "what came before is delivered"


def test_a_file_is_no_name_of_a_job_on_a_node(node):
    for line in (["checkpoint", "list", "slow.yaml"], ["checkpoint", "create", "a/b"], ["state", "tables", "x.yaml"], ["state", "query", "x.yaml", "s", "select 1 from state"]):
        assert "--data DIR" in tidemill(node, *line, code=2)[1]
        assert "--data DIR" in json.loads(tidemill(node, *line, "--json", code=2)[0])["error"]
    assert "there is no job `slow`" in tidemill(node, "checkpoint", "list", "slow", code=2)[1]


def test_a_job_that_a_node_refuses_is_an_error_once(node, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("name: j\nsources: {s: {file: {path: nowhere.csv, format: csv}}}\nsinks: {o: {from: s, blackhole: {}}}\n")
    said = tidemill(node, "job", "submit", str(job), code=2)[1]
    assert said.startswith(f"{job}:2:") and said.count("error:") == 1, said


def test_names_of_streams_that_are_none(node):
    for bad in (".", ".."):
        assert "but not `.` or `..`" in tidemill(node, "stream", "create", bad, code=1)[1]


def test_what_is_wrong_with_a_stream_is_json_for_scripts(node, name):
    node.create(name)
    for line, code in [
            (["describe", "nope"], 1), (["create", name], 1), (["create", ".."], 1), (["delete", "nope"], 2), (["delete", "nope", "--yes"], 1), (["alter", name], 2)]:
        said = tidemill(node, "stream", *line, code=code)
        told = tidemill(node, "stream", *line, "--json", code=code)
        assert said[0] == "" and told[1] == "", (said, told)
        told = json.loads(told[0])
        hint = f"hint: {told['hint']}\n" if told["hint"] else ""
        assert said[1] == f"error: {told['error']}\n{hint}"
    # Of records the objects are on standard error, where their summary is.
    for line in (["consume", "nope"], ["consume", name, "--from", "99"], ["produce", "nope"]):
        out, said = tidemill(node, "stream", *line, "--json", code=1)
        objects = [json.loads(it) for it in said.splitlines()]
        assert out == "" and objects[-1]["error"], said
        assert [it["end"] for it in objects[:-1]] in ([], ["failed"])
    out, said = tidemill(node, "stream", "consume", name, "--json")
    assert out == "" and json.loads(said.splitlines()[-1])["bytes_per_s"] == 0
