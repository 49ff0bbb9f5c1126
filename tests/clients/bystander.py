"""A client that writes and reads all the while, in a process of its own: what keeps the tests' interpreter busy is not the node's doing.

`python bystander.py ADDRESS TOPIC` says `ready` after its first record, goes on until its standard input ends, and then says how it went, as JSON: the longest time
for a record and back in seconds, and what failed, if something did.
"""

import json
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import wire

OK = 0
PAUSE_S = 0.02


@contextmanager
def bystander(broker, topic, worst_s=1.5):
    """Fails if the client is refused, disturbed or made to wait."""
    command = [sys.executable, Path(__file__), broker.address, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            first = process.stdout.readline()
            if first == "ready\n":
                yield
            process.stdin.close()
            said = json.loads(process.stdout.read() if first == "ready\n" else first)
        finally:
            process.kill()
    assert said["failure"] is None, f"the bystander: {said['failure']}"
    assert said["worst_s"] < worst_s, f"the bystander had to wait {said['worst_s']:.1f} s"


def work(address, topic, stopped):
    worst_s = 0.0
    with wire.Connection(address) as connection:
        end = wire.list_offset(connection, topic)[1]
        while True:
            began = time.monotonic()
            code, offset = wire.produce(connection, topic, wire.batch([b"bystander"]))
            assert (code, offset) == (OK, end), f"{code} at {offset}, not {end}"
            found = wire.batches(wire.fetch(connection, topic, offset).records)
            assert found and found[0][0] == offset, f"{found} at {offset}"
            end += 1
            if worst_s == 0.0:
                print("ready", flush=True)
            worst_s = max(worst_s, time.monotonic() - began)
            if stopped.wait(PAUSE_S):
                return worst_s


def main():
    [address, topic] = sys.argv[1:]
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    said = {"worst_s": 0.0, "failure": None}
    try:
        said["worst_s"] = work(address, topic, stopped)
    except Exception as error:
        said["failure"] = repr(error)
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
