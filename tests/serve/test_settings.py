"""Settings of a real node: file, environment, flags, and what is wrong with them."""

import json

from node import refused
from waiting import wait

FREE = ["--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]


def spec(node):
    node.create("s")
    return node.get("/streams/s").json()


def test_file_then_environment_then_flag(own, tmp_path):
    config = tmp_path / "node.yaml"
    config.write_text("# settings\nstreamlets: 3\nfsync: os\nretention_bytes: 1GiB\nactive_groups: 2\n")
    node = own("--config", str(config), "--fsync", "20ms", variables={"TIDEMILL_ACTIVE_GROUPS": "4", "TIDEMILL_FSYNC": "always"}).start()
    found = spec(node)
    assert len(found["streamlets"]) == 3 and found["retention_bytes"] == 1 << 30
    assert found["active_groups"] == 4, "a variable counts before the file"
    assert found["fsync"] == "20ms", "a flag counts before a variable"


def test_the_file_can_be_named_by_a_variable(own, tmp_path):
    config = tmp_path / "node.yaml"
    config.write_text("streamlets: 7\n")
    node = own(variables={"TIDEMILL_CONFIG": str(config)}).start()
    assert len(spec(node)["streamlets"]) == 7


def test_mistakes_in_the_file_have_line_and_column(tmp_path):
    config = tmp_path / "node.yaml"
    config.write_text("data: d\nkafka_lisen: 127.0.0.1:0\nstreamlets:\n  - 1\n")
    said, seconds = refused(tmp_path, "--config", "node.yaml", *FREE)
    assert "node.yaml:2:1: error: unknown setting `kafka_lisen`" in said and "did you mean `kafka_listen`?" in said, said
    assert "node.yaml:4:3: error: a list stands here" in said, said
    assert seconds < 2 and not (tmp_path / "d").exists()
    config.write_text("data: [\n")
    assert "node.yaml:" in refused(tmp_path, "--config", "node.yaml", *FREE)[0]
    assert "missing.yaml" in refused(tmp_path, "--config", "missing.yaml", *FREE)[0]
    config.write_bytes(b"data: \xff\n")
    assert "node.yaml" in refused(tmp_path, "--config", "node.yaml", *FREE)[0]


def test_mistakes_elsewhere_are_named(tmp_path):
    said, _ = refused(tmp_path, "--data", "d", *FREE, "--streamlets", "none", variables={"TIDEMILL_MEMORY": "much"})
    assert "--streamlets: error: `none` is not a whole number from 1 to 100000" in said, said
    assert "TIDEMILL_MEMORY: error: `much` is not a size" in said, said
    said, _ = refused(tmp_path, "--nonsense", "1")
    assert "--nonsense" in said


def test_log_lines_are_json_if_asked_for(own):
    node = own("--log-format", "json", "--log-level", "debug").start()
    assert node.get("/streams", headers={"Host": "127.0.0.1"}).status == 200
    node.socket().close()
    node.stop()
    lines = [json.loads(line) for line in node.said().splitlines()]
    assert lines and all({"timestamp", "level", "target"} <= line.keys() for line in lines)


def test_open_files_are_raised(own):
    node = own().start()
    limits = {name.strip(): values.split() for name, values in ((line[:26], line[26:]) for line in open(f"/proc/{node.process.pid}/limits"))}
    soft, hard = limits["Max open files"][:2]
    assert soft == hard


def test_limits_hold(own):
    node = own("--http-connections", "3", "--http-body-bytes", "2KiB", "--http-idle-time", "1s").start()
    assert node.create("s")
    assert node.post("/streams/s", b"1\n" * 2000).status == 413
    sockets = wait(lambda: filled(node, 3), 20, "one more is refused")
    for it in sockets:
        assert it.recv(1) == b"", "idle ones are closed after a second"
    wait(lambda: not refused_at_once(node), 5, "room again")


def filled(node, count):
    """So many connections, if one more is refused. On a busy machine they may be closed before it comes."""
    sockets = [node.socket() for _ in range(count)]
    if refused_at_once(node):
        return sockets
    for it in sockets:
        it.close()
    return None


def refused_at_once(node):
    with node.socket() as one:
        one.settimeout(0.5)
        try:
            one.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return one.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


def test_a_misspelt_variable_is_warned_of(own):
    node = own(variables={"TIDEMILL_NODE_IDD": "2", "TIDEMILL_SERVICE_HOST": "10.0.0.1", "TIDEMILL_DATASETS": "/x"}).start()
    [line] = [line for line in node.said().splitlines() if "TIDEMILL_" in line]
    assert "WARN" in line and "TIDEMILL_NODE_IDD" in line and "TIDEMILL_NODE_ID" in line.replace("TIDEMILL_NODE_IDD", ""), line
