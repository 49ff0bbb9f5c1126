"""The binary under test, the data, and DuckDB over the same data."""

import os
from pathlib import Path

import duckdb
import pytest

from mill import Mill
from served import Node

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("TIDEMILL_DATASETS", ROOT / "data"))
ROWS = int(os.environ.get("ORACLE_ROWS", "60000"))


@pytest.fixture(scope="session")
def binary():
    path = Path(os.environ.get("TIDEMILL_BIN", ROOT / "target/debug/tidemill")).resolve()
    assert path.is_file(), f"{path}: build it, or set TIDEMILL_BIN"
    return path


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """A folder with the first flights, the weather of their time, and the tables."""
    folder = tmp_path_factory.mktemp("inputs")
    with open(DATA / "nycflights.ndjson", encoding="utf-8") as source:
        # id is the record's place in the file: its order, and its name.
        lines = [f'{{"id":{i},{line[1:]}' for i, line in zip(range(ROWS), source)]
    (folder / "flights.ndjson").write_text("".join(lines), encoding="utf-8")
    last = int(lines[-1].split(",", 2)[1].removeprefix('"ts":'))
    with open(DATA / "nycweather.ndjson", encoding="utf-8") as source:
        kept = [line for line in source if int(line[6 : line.index(",")]) <= last + 7_200_000]
    (folder / "weather.ndjson").write_text("".join(kept), encoding="utf-8")
    for name in ("airlines.csv", "planes.csv"):
        (folder / name).write_bytes((DATA / name).read_bytes())
    return folder


@pytest.fixture(scope="session")
def db(inputs):
    """DuckDB with the tables flights (id, ts in ms, ...), weather, airlines, planes."""
    db = duckdb.connect()
    db.execute("set timezone = 'UTC'")
    for name in ("flights", "weather"):
        db.execute(
            f"create table {name} as select * from "
            f"read_json('{inputs}/{name}.ndjson', format = 'newline_delimited', sample_size = -1)"
        )
    # DuckDB takes whole numbers below zero for HUGEINT.
    for name in ("dep_delay", "arr_delay"):
        db.execute(f"alter table flights alter {name} type bigint")
    for name in ("airlines", "planes"):
        db.execute(
            f"create table {name} as select * from read_csv('{inputs}/{name}.csv', header = true)"
        )
    # From milliseconds to a moment, and the start of the window of a length that holds one.
    db.execute("create macro moment(ms) as make_timestamp(cast(ms as bigint) * 1000)")
    db.execute("create macro floor_to(ms, size) as ms - ms % size")
    return db


@pytest.fixture
def mill(binary, inputs, tmp_path):
    return Mill(binary, inputs, tmp_path)


@pytest.fixture
def node(binary, tmp_path):
    node = Node(binary, tmp_path)
    node.start()
    yield node
    if node.process.poll() is None:
        node.process.kill()
        node.process.wait()
