#!/usr/bin/env python3
"""Writes good inputs for the fuzz target `broker`: every request in every version, alone and one after the other.

usage: target/clients-venv/bin/python fuzz/seeds.py FOLDER

tests/clients/run.sh installs kafka-python there."""

import struct
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "clients"), str(TESTS)]

import test_versions
import wire


def frame(kind, fields, version):
    """Fields that a version does not have are left out by it."""
    request = kind(version=version, **fields)
    request.with_header(correlation_id=1, client_id="seed")
    content = request.encode(framed=True, header=True)[4:]
    return struct.pack(">H", len(content)) + content


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    # The target makes a stream of this name.
    batch = wire.batch([b"value", b"", b"x" * 50])
    one_by_one = {}
    for kind, fields in test_versions.requests("t", batch):
        for version in range(kind.max_version + 1):
            try:
                content = frame(kind, fields, version)
            except (ValueError, TypeError, AttributeError, NotImplementedError):
                # A version that this client never had.
                continue
            one_by_one.setdefault(version, []).append(content)
            (folder / f"{kind.__name__}-{version}").write_bytes(content)
    for version, contents in one_by_one.items():
        for first in range(0, len(contents), 8):
            (folder / f"several-{version}-{first}").write_bytes(b"".join(contents[first : first + 8]))
    print(f"{len(list(folder.iterdir()))} inputs in {folder}")


if __name__ == "__main__":
    main()
