"""Settings of a cluster that do not fit together are refused before anything starts."""

import subprocess

import pytest
from node import binary, clean_environment

KEY = "a key that is long enough, 0123456789\n"


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--cluster-listen", "127.0.0.1:0"], "--cluster-key-file"),
        (["--join", "127.0.0.1:7088"], "add --cluster-listen"),
        (["--coordinator", "etcd:http://127.0.0.1:1"], "add --cluster-listen"),
        (["--cluster-key-file", "KEY"], "add --cluster-listen"),
        (["--cluster-listen", "127.0.0.1:0", "--cluster-key-file", "KEY"], "--join"),
        (["--cluster-listen", "127.0.0.1:0", "--cluster-key-file", "missing"], "missing"),
        (["--cluster-listen", "127.0.0.1:0", "--cluster-key-file", "SHORT"], "at least 16"),
        (["--cluster-listen", "127.0.0.1:0", "--cluster-key-file", "KEY", "--join", "127.0.0.1:7088", "--coordinator", "etcd:http://127.0.0.1:1"], "exclude each other"),
        (["--coordinator", "zookeeper:2181"], "etcd:http://HOST:PORT"),
        (["--join", "a:1,a:1"], "twice"),
    ],
)
def test_what_is_missing_is_named(tmp_path, flags, said):
    (tmp_path / "KEY").write_text(KEY)
    (tmp_path / "SHORT").write_text("short\n")
    command = [binary(), "serve", "--data", "data", "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert done.returncode == 2, done.stderr
    assert said in done.stderr, done.stderr
    assert "ready" not in done.stdout
