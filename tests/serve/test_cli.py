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
