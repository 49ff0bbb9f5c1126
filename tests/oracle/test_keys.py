"""Columns of every type that can be a key, as they stand in Parquet files of others."""

import datetime
import uuid
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet
import pytest

DAYS = [datetime.date(1970, 1, 1) + datetime.timedelta(days=it) for it in (0, -719_162, 2_932_896)]
IDS = [uuid.UUID(int=it).bytes for it in (0, 7, 2**128 - 1)]
KEYS = {
    "bool": ([True, False, True], pa.bool_()),
    "int8": ([-128, 127, 0], pa.int8()),
    "uint64": ([2**64 - 1, 2**63, 0], pa.uint64()),
    "double": ([1.5, -0.0, 1e300], pa.float64()),
    "decimal": ([Decimal("1.20"), Decimal("-9.99"), Decimal(0)], pa.decimal128(20, 2)),
    "long decimal": ([Decimal(10) ** 40, Decimal(-1), Decimal(0)], pa.decimal256(50, 0)),
    "text": (["a", "", "ä" * 40], pa.string()),
    "dictionary": (["a", "b", "c"], pa.dictionary(pa.int32(), pa.string())),
    "bytes": ([b"a", b"", b"\xff" * 40], pa.binary()),
    "uuid": (IDS, pa.binary(16)),
    "date": (DAYS, pa.date32()),
    "time": ([datetime.time(0), datetime.time(23, 59, 59, 999_999), datetime.time(12)], pa.time64("us")),
    "seconds": ([datetime.time(0), datetime.time(23, 59, 59), datetime.time(12)], pa.time32("ms")),
    "instant": ([0, -1, 2**50], pa.timestamp("us", "America/New_York")),
    "duration": ([0, -1, 2**50], pa.duration("ms")),
}
STAGES = """
counts: {from: left, key: [k], window: {global: {}}, aggregate: {n: count(*)}}
windows: {from: left, key: [k], window: {tumbling: 1h}, aggregate: {n: count(*)}}
once: {from: left, dedup: {on: [k]}}
best: {from: left, top: {k: 1, by: id, per: [k]}}
pairs: {join: {left: left, right: right, on: [k], within: 1h}}
"""


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_a_type(mill, name):
    values, data_type = KEYS[name]
    numbers = [0, 1, None, 0, 2, None, 0]
    keys = pa.array([None if it is None else values[it] for it in numbers], data_type)
    times = pa.array(range(len(numbers)), pa.timestamp("us", "UTC"))
    table = pa.table({"id": range(len(numbers)), "t": times, "k": keys})
    pa.parquet.write_table(table, mill.folder / "keys.parquet")
    sources = [f"{it}: {{file: {{path: keys.parquet, format: parquet}}, time: {{field: t}}}}" for it in ("left", "right")]
    results = mill.results(STAGES, "counts windows once best pairs", sources, "checkpoint: {every: 1ms}")
    # Equal are those that SQL calls equal, and for all but joins nulls.
    equal = Counter(None if it is None else values[it] for it in numbers)
    assert sorted(it["n"] for it in results["counts"]) == sorted(equal.values())
    assert sorted(it["n"] for it in results["windows"]) == sorted(equal.values())
    assert len({str(it["k"]) for it in results["counts"]}) == len(equal), "keys come back"
    assert len(results["once"]) == len(results["best"]) == len(equal)
    partners = Counter(it["id"] for it in results["pairs"])
    assert partners == {i: equal[values[it]] for i, it in enumerate(numbers) if it is not None}
