"""Refusals in Tidemill's own words, with the place and a way out, where a user meets them."""

import json
import subprocess

import pytest

from node import binary, clean_environment
from test_agreement import job, run
from test_cli import tidemill

BODIES = [
    ("POST", "/jobs", "", "the body is empty, and should be a submission of a job: send `{\"job\": TEXT}`"),
    ("POST", "/jobs", "name: sales\n", "the body is not JSON: expected an object, found `n` at byte 0 of it; a submission of a job is `{\"job\": TEXT}`"),
    ("POST", "/jobs", '{"jobb":"x"}', "`jobb`: unknown field `jobb`, expected one of `job`, `file`, `set`, `base_dir`, `resume`, did you mean `job`?"),
    ("POST", "/jobs", '{"job":"x","resume":"yes"}', "`resume`: found `yes`, expected `true` or `false`"),
    ("POST", "/jobs", '{"job":"x","base_dir":"jobs"}', "`base_dir` is `jobs`, and is to be an absolute path of the node's machine"),
    ("POST", "/jobs/none/state/s", '{"sql":5', "the body is not JSON: expected `,` or `}`, but the body ends; a query is"),
    ("POST", "/jobs/none/state/s", "{}", "the body is not a query: the field `sql` is missing"),
    ("GET", "/jobs/none/checkpoints/first", None, "`first` is no checkpoint: one is named by its number, from 1"),
    ("GET", "/jobs/n%D0%BEne", None, "there is no job `n\u043ene` (the name has U+043E (Cyrillic letter) as character 2); `tidemill job list`"),
    ("GET", "/jobs/%FF", None, "a name in the path `/jobs/%FF` is not UTF-8"),
    ("GET", "/streams/%E4/records", None, "a name in the path `/streams/%E4/records` is not UTF-8"),
    ("GET", "/streams/none/records?from=%FF", None, "the parameter `from=%FF` is not UTF-8"),
    ("GET", "/streams/none/records?values=tехt", None, "unknown `values` `t\u0435\u0445t` (the name has U+0435 (Cyrillic letter) as character 2, U+0445"),
    ("GET", "/streams/none/records?form=1", None, "unknown parameter `form`, expected one of `from`, `streamlet`, `max_bytes`, `wait`, `values`, did you mean `from`?"),
    ("POST", "/streams/none?format=jsn", "{}", "unknown `format` `jsn`, expected one of `json`, `text`, did you mean `json`?"),
    ("GET", "/streams/no%E2%80%8Bne/records", None, "there is no stream `no\u200bne` (the name has U+200B (zero width space) as character 3)"),
]


@pytest.mark.parametrize("method,path,body,expected", BODIES)
def test_a_request_is_refused_in_plain_words(node, method, path, body, expected):
    quoted = path.replace("tехt", "t%D0%B5%D1%85t")
    answer = node.ask(method, quoted, body=body)
    assert answer.status in (400, 404), answer.body
    assert expected in answer.json()["error"], answer.json()


def test_a_body_that_is_not_gzip_says_so(node, name):
    node.create(name)
    answer = node.post(f"/streams/{name}", '{"a":1}\n', headers={"Content-Encoding": "gzip"})
    assert answer.status == 400 and "the body is not gzip as `Content-Encoding` says" in answer.json()["error"]


def test_a_byte_order_mark_is_no_data_and_utf_16_is_refused(node, name):
    node.create(name)
    assert node.post(f"/streams/{name}", b'\xef\xbb\xbf{"a":1}\n').status == 200
    assert [it["value"] for it in node.records(name)] == [{"a": 1}]
    for path in (f"/streams/{name}", f"/streams/{name}?format=text", f"/write?db={name}"):
        answer = node.post(path, '{"a":1}\n'.encode("utf-16"))
        assert answer.status == 400 and "the body is UTF-16 (little endian)" in answer.json()["error"], answer.body


def test_a_submission_shows_the_warnings_of_validate(node, name, tmp_path):
    node.create(name)
    text = (f"name: {name}\ncompression: always\nsources: {{in: {{stream: {name}, format: json, schema: {{n: bigint}}}}}}\n"
            "sinks: {out: {from: in, blackhole: {}}}\n")
    said = run(tmp_path, text, command="validate")
    out, warned = tidemill(node, "job", "submit", str(tmp_path / "job.yaml"))
    shown = node.get(f"/jobs/{name}").json()["warnings"]
    assert [it.split(":")[0].split(" the job")[0] for it in shown] == ["without a `checkpoint`", "`compression` has no effect"]
    for warning in shown:
        assert warning in said and warning in warned, (warning, said, warned)
        assert f"warning: {warning}" in tidemill(node, "job", "status", name)[0]
    tidemill(node, "job", "cancel", name)


@pytest.mark.parametrize("content,expected", [
    ("name: a: b\n".encode(), "job.yaml:1:8: error: a `:` where no name can end, expected one `NAME: VALUE` in a line"),
    (b"name: a\n\tcycle: 5ms\n", "error: a tab before or in a name, expected spaces: YAML is not indented with tabs"),
    ("name: a\n".encode("utf-16"), "the job file is UTF-16 (little endian), and only UTF-8 is read"),
    (b"name: a\n# caf\xe9\n", "line 2 is not UTF-8: write the file in UTF-8"),
])
def test_a_job_file_that_is_not_yaml_says_what_to_write(tmp_path, content, expected):
    (tmp_path / "bad.yaml").write_bytes(content)
    ran = subprocess.run([binary(), "validate", "bad.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert ran.returncode == 2 and expected.replace("job.yaml", "bad.yaml") in ran.stderr, ran.stderr


def test_names_with_unseen_characters_are_told_on_the_command_line(node):
    said = tidemill(node, "stream", "describe", "ord\u0435rs", code=1)[1]
    assert "stream `ord\u0435rs` (the name has U+0435 (Cyrillic letter) as character 4)" in said
    said = tidemill(node, "stream", "list", "\u2013\u2013json", code=2)[1]
    assert "note: `\u2013\u2013json` has U+2013 (not the ASCII sign) as character 1" in said


def test_a_part_of_a_list_that_does_not_fit_is_named(tmp_path):
    (tmp_path / "in.ndjson").write_text('{"l":[1,2]}\n{"l":[1,"x"]}\n')
    run(tmp_path, job("{file: {path: in.ndjson, format: json, schema: {l: 'bigint[]'}}}"))
    found = [json.loads(line)["reason"] for line in (tmp_path / "bad.ndjson").read_text().splitlines()]
    assert len(found) == 1 and '`[1]`: "x" is not a bigint' in found[0], found
