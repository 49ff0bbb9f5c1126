"""What holds of every backend on a server, with the server and the binary themselves."""

import os
import random
import subprocess

import pytest

from jobs import FILE_JOB, NODE_JOB, ROOT, Node, Run
from servers import SECRET, free_ports
from waiting import wait


def file_job(server, name, events, backend=None):
    return FILE_JOB.format(name=name, backend=backend or server.backend(), input=events)


@pytest.fixture
def node(server, tmp_path):
    node = Node(tmp_path, server.environment())
    yield node.start()
    node.kill()
    assert "panicked" not in node.said()
    assert SECRET not in node.said()


def test_the_contract(server):
    """The tests in Rust that every backend has to pass."""
    contracts = dict(line.split("=", 1) for line in os.environ["TIDEMILL_TEST_CONTRACTS"].splitlines())
    done = subprocess.run(
        [ROOT / contracts[server.name]], cwd=ROOT, env={**os.environ, **server.contract()}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]


@pytest.mark.parametrize("seed", [1, 2])
def test_row_40_the_same_bytes_after_kills(server, name, events, tmp_path, seed):
    """Killed again and again, the job goes on from its checkpoints, and what it writes is what an undisturbed run
    writes."""
    quiet = Run(tmp_path / "quiet", file_job(server, name, events, "indexed: {}"), {})
    summary = quiet.whole()
    expected, total = quiet.written(), quiet.size()
    job = Run(tmp_path / "killed", file_job(server, name, events), server.environment())
    draw, kills, last = random.Random(seed), 0, None
    while last is None:
        before, until = server.keys(name, b"m"), draw.uniform(0.02, 0.12) * total
        process = job.begin(*(["--resume"] if kills else []))
        # At any place in the checkpoint after one that this life has made.
        is_far = lambda: server.keys(name, b"m") != before and job.size() >= until
        wait(lambda: process.poll() is not None or is_far(), 60, "a checkpoint and output")
        until = job.size() + until
        wait(lambda: process.poll() is not None or job.size() >= until, 60, "output")
        if process.poll() is None and kills < 12:
            process.kill()
            process.communicate()
            kills += 1
            continue
        out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        last = out.splitlines()[-1]
    assert job.written() == expected, f"after {kills} kills"
    assert kills > 2, "it was never killed"
    assert f'"records":{summary["records"]},' not in last.replace(" ", ""), "the last life read everything again"


def test_a_server_that_is_killed_stops_no_job(server, name, node):
    """The job goes on without its server; when that is back, checkpoints are made again, and they are good."""
    node.ask("PUT", "/streams/events")
    given = []

    def give(count):
        more = [{"id": len(given) + nth, "user": f"u{nth % 7}"} for nth in range(count)]
        given.extend(more)
        node.append(more)

    def has_all():
        return len(node.records("counted")) == len(given)

    give(200)
    node.submit(NODE_JOB.format(name=name, backend=server.backend()))
    for _ in range(2):
        give(300)
        before = node.wait_for(name, lambda it: it["completed"] > 0 and not it["failure"])
        server.kill()
        give(300)
        failed = node.wait_for(name, lambda it: it["failure"])
        assert "cannot be reached" in failed["failure"] and SECRET not in failed["failure"], failed
        wait(has_all, 60, "all rows without the server")
        server.start()
        give(300)
        node.wait_for(name, lambda it: it["completed"] > before["completed"] and not it["failure"])
    wait(has_all, 60, "all rows")
    last = node.wait_for(name, lambda it: not it["failure"])["cycle"]
    node.kill()
    node.start()
    assert node.checkpoints(name)["cycle"] >= last, "it went on from an older one, or began anew"
    give(100)
    wait(has_all, 60, "all rows")
    seen = {}
    for row in node.records("counted"):
        assert row["n"] == seen.get(row["user"], 0) + 1, f"{row} after {seen}"
        seen[row["user"]] = row["n"]


def test_a_node_that_starts_before_its_server_waits_for_it(server, name, node):
    node.ask("PUT", "/streams/events")
    node.append([{"id": 1, "user": "u"}])
    node.submit(NODE_JOB.format(name=name, backend=server.backend()))
    before = node.wait_for(name, lambda it: it["completed"] > 0 and not it["failure"])
    node.kill()
    server.kill()
    node.start()
    found = wait(lambda: (it := node.job(name)) and "cannot be reached" in it.get("message", "") and it, 60, "why it waits")
    assert found["status"] == "waiting", found
    assert SECRET not in found["message"]
    server.start()
    wait(lambda: node.job(name)["status"] == "running", 90, "running")
    assert node.checkpoints(name)["cycle"] >= before["cycle"], "it began anew"
    node.append([{"id": 2, "user": "u"}])
    wait(lambda: [it["n"] for it in node.records("counted")] == [1, 2], 60, "it goes on counting")


def test_a_job_that_is_deleted_leaves_nothing_on_its_server(server, name, node, tmp_path):
    node.ask("PUT", "/streams/events")
    node.append([{"id": 1, "user": "u"}])
    node.submit(NODE_JOB.format(name=name, backend=server.backend()))
    node.wait_for(name, lambda it: it["completed"] > 0 and not it["failure"])
    node.ask("DELETE", f"/jobs/{name}")
    wait(lambda: node.job(name)["status"] == "cancelled", 60, "cancelled")
    left = lambda: [key for first in (b"r", b"m") for key in server.keys(name, first)]
    assert left()
    server.kill()
    code, said = node.delete(name)
    assert code == 1 and "cannot be reached" in said and SECRET not in said, said
    assert node.job(name)["status"] == "cancelled", "nothing was deleted"
    server.start()
    code, said = node.delete(name)
    assert code == 0, said
    assert not left() and not (node.folder / "node/jobs" / name).exists()
    # The place is free for whoever comes.
    other = Node(tmp_path / "other", server.environment()).start()
    try:
        other.ask("PUT", "/streams/events")
        other.append([{"id": 1, "user": "u"}])
        other.submit(NODE_JOB.format(name=name, backend=server.backend()))
        other.wait_for(name, lambda it: it["completed"] > 0 and not it["failure"])
    finally:
        other.kill()


def test_a_server_that_is_not_there_is_told(server, name, events, tmp_path):
    [port] = free_ports(1)
    backend = server.backend().replace(str(server.port), str(port))
    said = Run(tmp_path, file_job(server, name, events, backend), server.environment()).whole(code=2)
    assert "cannot be reached" in said and f"127.0.0.1:{port}" in said, said
    assert SECRET not in said


def test_row_28_a_second_data_folder_is_refused(server, name, events, tmp_path):
    job = Run(tmp_path, file_job(server, name, events), server.environment())
    job.whole(data="first")
    said = job.whole(data="second", code=2)
    assert f"{tmp_path}/first" in said or "first/checkpoints" in said, f"whose it is: {said}"
    assert server.refuses_owner.format(job=name) in said, f"what to do: {said}"
    # The same job is let in again, and the other one when what was said is done.
    job.whole(data="first")
    server.free(name)
    job.whole(data="second")
    assert "kept for another" in job.whole(data="first", code=2)


def test_row_20_a_flipped_byte_is_told_and_nothing_wrong_is_written(server, name, events, tmp_path):
    job = Run(tmp_path, file_job(server, name, events), server.environment())
    process = job.begin()
    # Killed after a checkpoint, so that there is something left to do.
    wait(lambda: process.poll() is not None or server.keys(name, b"m"), 60, "a checkpoint")
    wait(lambda: process.poll() is not None or job.size() > 200_000, 60, "output")
    process.kill()
    process.communicate()
    before = job.written()
    assert server.damage(name) > 0, "there is nothing to damage"
    said = job.whole("--resume", code=2)
    assert "damaged" in said and name in said, said
    # A sink that is opened cuts off what it had written and not committed.
    assert all(before[it].startswith(rows) for it, rows in job.written().items())


def test_wrong_passwords_are_told_and_not_shown(server, name, events, tmp_path):
    if not server.environment():
        pytest.skip("this server has no passwords")
    job = file_job(server, name, events)
    wrong = {variable: f"{it}-not" for variable, it in server.environment().items()}
    for variables in (wrong, {}):
        # Without any, nobody else is to be asked for them.
        said = Run(tmp_path, job, {"AWS_EC2_METADATA_DISABLED": "true", **variables}).whole(code=2)
        assert "refused" in said and list(server.environment())[-1] in said, said
        assert SECRET not in said
