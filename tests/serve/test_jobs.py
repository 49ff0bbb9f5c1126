"""Jobs of a node from the outside: deleted, and waited for while what they need is away or has no room."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from node import binary, clean_environment
from waiting import wait

SOURCE = """
name: far
sources: {lines: {kafka: {brokers: "127.0.0.1:PORT", topic: lines, format: json}}}
sinks: {out: {from: lines, file: {path: out.ndjson, format: json}}}
"""


def submit(node, text):
    return node.post("/jobs", json.dumps({"job": text}))


def job(node, name="far"):
    return node.get(f"/jobs/{name}").json()


def tidemill(node, *arguments):
    done = subprocess.run(
        [binary(), *arguments, "--http", f"127.0.0.1:{node.http_port}"], capture_output=True, text=True, timeout=60, env=clean_environment())
    return done.returncode, done.stdout + done.stderr


def status(node, name="far"):
    series = f'tidemill_job_status{{job="{name}",status="'
    lines = [line for line in node.get("/metrics").body.decode().splitlines() if line.startswith(series)]
    return [line.removeprefix(series).split('"')[0] for line in lines if line.endswith(" 1.0")]


def far_away(own):
    """A node whose job read two lines of another node, that is stopped; both are."""
    broker, node = own().start(), own().start()
    broker.create("lines")
    broker.append("lines", [{"n": 1}, {"n": 2}])
    assert submit(node, SOURCE.replace("PORT", str(broker.kafka_port))).status == 201
    wait(lambda: job(node)["progress"]["sinks"][0]["rows"] == 2, 20, "rows")
    for it in (node, broker):
        assert it.stop()[0] == 0
    return broker, node


def test_a_job_goes_on_when_the_broker_it_reads_is_there_again(own):
    broker, node = far_away(own)
    node.start()
    found = job(node)
    assert found["status"] == "waiting", "its node is ready before it has been given up"
    found = wait(lambda: (it := job(node)) and f"127.0.0.1:{broker.kafka_port}" in it["message"] and it, 60, "why it waits")
    assert found["status"] == "waiting"
    assert found["next_try_us"] > found["submitted_us"] and found["progress"] is None
    assert status(node) == ["waiting"]
    code, said = tidemill(node, "job", "list")
    assert code == 0 and "waiting" in said
    code, said = tidemill(node, "job", "status", "far")
    assert code == 0 and "again" in said and f"127.0.0.1:{broker.kafka_port}" in said
    code, said = tidemill(node, "job", "delete", "far")
    assert code == 2 and "tidemill job cancel far" in said
    # A life in which nothing came of it changes nothing.
    node.kill()
    node.start()
    assert job(node)["status"] == "waiting"
    broker.start()
    broker.append("lines", [{"n": 3}])
    wait(lambda: job(node)["status"] == "running", 60, "running")
    wait(lambda: job(node)["progress"]["sinks"][0]["rows"] == 1, 20, "the third line")
    assert status(node) == ["running"] and "next_try_us" not in job(node)
    out = node.data / "jobs/far/out.ndjson"
    assert [json.loads(line)["n"] for line in out.read_text().splitlines()] == [1, 2, 3], "each once"
    assert node.stop()[0] == 0


def test_what_does_not_pass_fails_a_job_that_waits(own):
    broker, node = far_away(own)
    broker.start()
    assert broker.ask("DELETE", "/streams/lines").status == 204
    broker.stop()
    node.start()
    assert job(node)["status"] == "waiting"
    broker.start()
    wait(lambda: job(node)["status"] == "failed", 60, "failed")
    assert "lines" in job(node)["message"]
    assert submit(node, SOURCE.replace("PORT", str(broker.kafka_port))).status == 422, "a submission is refused at once"


def test_a_job_that_waits_is_cancelled_and_its_node_stops_at_once(own):
    _, node = far_away(own)
    node.start()
    assert job(node)["status"] == "waiting"
    code, seconds = node.stop()
    assert code == 0 and seconds < 5
    node.start()
    code, said = tidemill(node, "job", "cancel", "far")
    assert code == 0, said
    assert job(node)["status"] == "cancelled"
    node.stop()
    node.start()
    assert job(node)["status"] == "cancelled"


def hanging(own):
    """A node whose job writes to another one, and that other node: it has a row and says nothing more."""
    cluster, node = own().start(), own().start()
    for it, stream in ((cluster, "out"), (node, "lines")):
        it.create(stream)
    text = SOURCE.replace('kafka: {brokers: "127.0.0.1:PORT", topic: lines, format: json}', "stream: lines, format: json")
    text = text.replace("file: {path: out.ndjson, format: json}", f'kafka: {{brokers: "127.0.0.1:{cluster.kafka_port}", topic: out, format: json}}')
    node.append("lines", [{"n": 1}])
    assert submit(node, text).status == 201
    wait(lambda: job(node)["progress"]["sinks"][0]["rows"] == 1, 20, "a row")
    cluster.process.send_signal(signal.SIGSTOP)
    node.append("lines", [{"n": 2}])
    wait(lambda: job(node)["progress"]["cycle_cut"] > job(node)["progress"]["cycle_committed"], 20, "a cycle that waits")
    return cluster, node


def test_a_node_stops_in_time_though_what_its_job_writes_to_says_nothing(own):
    cluster, node = hanging(own)
    try:
        code, seconds = node.stop()
        assert code == 0 and seconds < 5, (code, seconds)
    finally:
        cluster.process.send_signal(signal.SIGCONT)
    node.start()
    wait(lambda: [it["value"]["n"] for it in cluster.records("out")] == [1, 2], 60, "each row, once")


@pytest.mark.parametrize("rescaled", [False, True])
def test_a_job_that_was_cancelled_is_so_though_its_node_is_killed_before_it_has_ended(own, rescaled):
    cluster, node = hanging(own)
    try:
        code, said = tidemill(node, "job", "cancel", "far")
        assert code == 0 and job(node)["status"] == "running", said
        if rescaled:
            assert node.ask("PUT", "/jobs/far/threads?threads=1").status == 200, "it has not ended"
        node.kill()
    finally:
        cluster.process.send_signal(signal.SIGCONT)
    node.start()
    assert job(node)["status"] == "cancelled"


def test_a_stream_that_a_job_makes_is_as_others_that_say_nothing(own):
    node = own("--retention-bytes", "4MiB", "--retention-time", "4m", "--segment-bytes", "512KiB").start()
    assert node.create("plain")
    node.append("plain", [{"n": 1}])
    assert submit(node, """
name: copy
sources: {lines: {stream: plain, format: json, schema: {n: bigint}}}
sinks: {out: {from: lines, stream: {name: made, streamlets: 2}}}
""").status == 201
    wait(lambda: [it["value"] for it in node.records("made")] == [{"n": 1}], 20, "a row")
    plain, made = (node.get(f"/streams/{it}").json() for it in ("plain", "made"))
    assert len(made["streamlets"]) == 2
    assert (made["retention_bytes"], made["segment_bytes"]) == (4 << 20, 512 << 10)
    for setting in ("retention_bytes", "retention_time", "segment_bytes", "active_groups", "max_chunk_bytes"):
        assert made[setting] == plain[setting], setting


def test_a_job_that_has_ended_is_deleted_with_its_folder(own):
    node = own().start()
    node.create("lines")
    node.append("lines", [{"n": 1}, "no object"])
    text = SOURCE.replace('kafka: {brokers: "127.0.0.1:PORT", topic: lines, format: json}', "stream: lines, format: json")
    assert submit(node, text + "checkpoint: {every: 100ms}\n").status == 201
    wait(lambda: job(node)["progress"]["checkpoints"]["completed"] > 0, 20, "a checkpoint")
    code, said = tidemill(node, "job", "delete", "far")
    assert code == 2 and "tidemill job cancel far" in said
    assert node.post("/jobs/far/delete", "").status == 409
    folder = node.data / "jobs/far"
    assert (folder / "dead-letter.ndjson").exists() and (folder / "checkpoints").is_dir()
    assert tidemill(node, "job", "cancel", "far")[0] == 0
    wait(lambda: job(node)["status"] == "cancelled", 20, "cancelled")
    code, said = tidemill(node, "job", "delete", "far")
    assert code == 0 and said == "job far is deleted\n"
    assert not folder.exists() and node.get("/jobs/far").status == 404
    code, said = tidemill(node, "job", "delete", "far")
    assert code == 2 and "there is no job `far`" in said
    for name in ("..%2Flog", "%2Ftmp", "."):
        assert node.post(f"/jobs/{name}/delete", "").status == 404
    assert submit(node, text).status == 201, "the name is free"
    wait(lambda: job(node)["progress"]["sinks"][0]["rows"] == 1, 20, "from the beginning")
    node.stop()
    node.start()
    assert [it["name"] for it in node.get("/jobs").json()["jobs"]] == ["far"]


FULL = """
name: full
sources: {lines: {file: {path: "LINES", format: json}}}
sinks:
  out: {from: lines, file: {path: "OUT", format: json}}
  copies: {from: lines, stream: copies}
cycle: {records: 100}
"""


@pytest.fixture
def small(tmp_path):
    """A file system of 8 MB of its own, which only processes see that enter it: how to, and where it is from here."""
    place = tmp_path / "small"
    place.mkdir()
    holder = subprocess.Popen(
        ["unshare", "-Urm", "sh", "-c", f"mount -t tmpfs -o size=8m tmpfs {place} && echo there && exec sleep 600"], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"there\n"
    yield ["nsenter", "--preserve-credentials", "-t", str(holder.pid), "-U", "-m"], place, Path(f"/proc/{holder.pid}/root{place}")
    holder.kill()
    holder.wait()


def stalled_job(own, tmp_path, small):
    """A node whose job has no room, with ledger, file and stream on a disk that a file `ballast` fills."""
    enter, place, seen = small
    lines = tmp_path / "lines.ndjson"
    lines.write_text("".join(f'{{"n":{n},"text":"{"x" * 90}"}}\n' for n in range(20_000)))
    node = own("--data", str(place / "data"), "--segment-bytes", "64KiB", "--recycled", "0B")
    plain = node.command
    node.command = lambda: [*enter, *plain()]
    node.start()
    (seen / "ballast").write_bytes(bytes(6 << 20))
    answer = submit(node, FULL.replace("LINES", str(lines)).replace("OUT", str(place / "out.ndjson")))
    assert answer.status == 201, answer.body
    wait(lambda: job(node, "full")["progress"]["stalled"], 30, "no room")
    return node, lines


def is_whole(node, lines, small):
    wait(lambda: job(node, "full")["status"] == "finished", 30, "the end")
    assert job(node, "full")["progress"]["stalled"] is None
    assert (small[2] / "out.ndjson").read_bytes() == lines.read_bytes(), "the bytes of an undisturbed run"
    copies = [it["value"] for it in node.records("copies")]
    assert copies == [json.loads(it) for it in lines.read_text().splitlines()]
    return True


def test_row_14_a_job_waits_while_the_disk_is_full_and_goes_on_when_there_is_room(own, tmp_path, small):
    """Fault row 14: ledger, file and stream are on a disk that is full, and then it is not."""
    node, lines = stalled_job(own, tmp_path, small)
    before = job(node, "full")["progress"]
    stalled = before["stalled"]
    assert stalled["part"] in ("ledger", "out", "copies"), stalled
    assert "os error 28" in stalled["why"] and stalled["since_us"] > 0
    code, said = tidemill(node, "job", "status", "full")
    assert code == 0 and "job full: running" in said and f"`{stalled['part']}` waits since" in said, said
    assert 'tidemill_job_stalled{job="full"} 1.0' in node.get("/metrics").body.decode()
    assert node.get("/health").status == 200
    (small[2] / "ballast").unlink()
    wait(lambda: job(node, "full")["progress"]["cycle_committed"] > before["cycle_committed"], 5, "it goes on")
    assert is_whole(node, lines, small)
    assert node.said().count("a job stalls") == node.said().count("a job goes on") == 1, node.said()
    assert node.stop()[0] == 0


def test_row_14_a_node_that_stops_while_the_disk_is_full_loses_nothing_of_its_job(own, tmp_path, small):
    """Fault row 14: stopped while it is full, killed while it is full, and then there is room."""
    node, lines = stalled_job(own, tmp_path, small)
    code, seconds = node.stop()
    assert code == 0 and seconds < 5, node.said()
    (small[2] / "ballast").write_bytes(bytes(5 << 20))
    node.start()
    wait(lambda: job(node, "full")["progress"]["stalled"], 30, "no room again")
    node.kill()
    (small[2] / "ballast").unlink()
    node.start()
    assert is_whole(node, lines, small)
    assert node.stop()[0] == 0


def test_a_sink_with_the_name_of_its_stage_has_figures_of_its_own(own):
    node = own().start()
    node.create("lines")
    node.append("lines", [{"k": "a"}, {"k": "b"}, {"k": "a"}])
    text = """
name: twins
compression: always
checkpoint: {every: 1s}
sources: {lines: {stream: {name: lines, format: json}}}
stages: {counts: {from: lines, dedup: {on: [k]}}}
sinks:
  counts: {from: counts, stream: out, format: json, key: [k]}
  lines: {from: lines, blackhole: {}}
"""
    file = node.data / "twins.yaml"
    file.write_text(text)
    code, said = tidemill(node, "job", "submit", str(file))
    assert code == 0 and "`compression` has no effect" in said, said
    wait(lambda: [it["rows"] for it in job(node, "twins")["progress"]["sinks"]] == [2, 3], 20, "rows of both sinks")
    progress = job(node, "twins")["progress"]
    assert [it["name"] for it in progress["stages"]] == ["counts"]
    assert [it["name"] for it in progress["sinks"]] == ["counts", "lines"]
    figures = node.get("/metrics").body.decode()
    assert 'tidemill_job_sink_rows_total{job="twins",sink="counts"} 2' in figures
    assert 'tidemill_job_stage_input_rows_total{job="twins",stage="counts"} 3' in figures
    assert 'tidemill_job_source_records_total{job="twins",source="lines"} 3' in figures
    node.kill()
    node.start()
    wait(lambda: job(node, "twins")["status"] == "running", 60, "running")
    node.append("lines", [{"k": "b"}, {"k": "c"}])
    wait(lambda: len(node.get("/streams/out/records?from=earliest").lines()) == 3, 20, "each key once")
    assert node.stop()[0] == 0
