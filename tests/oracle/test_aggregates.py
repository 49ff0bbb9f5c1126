"""Every aggregate, keyed and not, with nulls (cancelled flights have no delay)."""

import json
import random
from decimal import Decimal, localcontext

import pyarrow as pa
import pyarrow.parquet
import pytest

from mill import same

CALLS = {
    "n": ("count(*)", "count(*)"),
    "delays": ("count(dep_delay)", "count(dep_delay)"),
    "kinds": ("count(distinct tailnum)", "count(distinct tailnum)"),
    "total": ("sum(arr_delay)", "cast(sum(arr_delay) as bigint)"),
    "total_f": ("sum(arr_delay / 7.0)", "sum(arr_delay / cast(7 as double))"),
    "least": ("min(arr_delay)", "min(arr_delay)"),
    "most": ("max(arr_delay)", "max(arr_delay)"),
    "least_text": ("min(tailnum)", "min(tailnum)"),
    "most_text": ("max(tailnum)", "max(tailnum)"),
    "mean": ("avg(arr_delay)", "avg(arr_delay)"),
    "var_s": ("var_samp(arr_delay)", "var_samp(arr_delay)"),
    "var_p": ("var_pop(arr_delay)", "var_pop(arr_delay)"),
    "dev_s": ("stddev_samp(arr_delay)", "stddev_samp(arr_delay)"),
    "dev_p": ("stddev_pop(arr_delay)", "stddev_pop(arr_delay)"),
    # Like all aggregates, these leave nulls out.
    "opening": ("first(dep_delay)", "first(dep_delay order by id) filter (dep_delay is not null)"),
    "closing": ("last(dep_delay)", "last(dep_delay order by id) filter (dep_delay is not null)"),
}
OURS = "{" + ", ".join(f"{name}: '{ours}'" for name, (ours, _) in CALLS.items()) + "}"
THEIRS = ", ".join(f"{sql} as {name}" for name, (_, sql) in CALLS.items())


@pytest.mark.parametrize("keys", [[], ["carrier"], ["origin", "dest"], ["tailnum"]], ids="-".join)
def test_exact_aggregates(mill, db, keys):
    key = f"key: [{', '.join(keys)}]\n  " if keys else ""
    rows = mill.out(f"out:\n  from: flights\n  {key}window: {{global: {{}}}}\n  aggregate: {OURS}")
    columns = "".join(f"{it}, " for it in keys)
    same(db, rows, f"select {columns}{THEIRS} from flights group by all")


def test_aggregates_of_nothing_but_nulls(mill, db):
    rows = mill.out(f"""
cancelled: {{from: flights, where: dep_time is null}}
out: {{from: cancelled, key: [carrier], window: {{global: {{}}}}, aggregate: {OURS}}}""")
    same(db, rows, f"select carrier, {THEIRS} from flights where dep_time is null group by carrier")
    assert any(row["total"] is None and row["n"] > 0 and row["delays"] == 0 for row in rows)


def test_variance_of_one_value(mill, db):
    rows = mill.out(f"""
one: {{from: flights, where: id < 40}}
out: {{from: one, key: [dest], window: {{global: {{}}}}, aggregate: {OURS}}}""")
    same(db, rows, f"select dest, {THEIRS} from flights where id < 40 group by dest")
    assert any(row["var_s"] is None and row["var_p"] == 0 for row in rows)


def test_sums_of_money_are_exact(mill, db):
    # To the last digit: floats would have said 3.4000000000000004 of them.
    mill.write("""
fares: {from: flights, select: {carrier: carrier, fare: "cast(cast(distance as varchar) || '.10' as decimal(9, 2))"}}
out: {from: fares, key: [carrier], window: {global: {}}, aggregate: {n: count(*), total: sum(fare), late: 'sum(fare) filter (where fare > 1000)', least: min(fare), last: last(fare), mean: avg(fare)}}""")
    mill.run()
    with open(mill.folder / "out.ndjson", encoding="utf-8") as file:
        rows = [json.loads(line, parse_float=Decimal) for line in file]
    expected = db.sql("""
        with fares as (select id, carrier, cast(cast(distance as varchar) || '.10' as decimal(9, 2)) as fare from flights)
        select carrier, count(*), sum(fare), sum(fare) filter (fare > 1000), min(fare), last(fare order by id) from fares group by all""")
    means = {row["carrier"]: row.pop("mean") for row in rows}
    assert sorted(tuple(row.values()) for row in rows) == sorted(expected.fetchall())
    for row in rows:
        assert float(means[row["carrier"]]) == pytest.approx(float(row["total"] / row["n"]))


@pytest.mark.parametrize("kept", ["", "checkpoint: {every: 1ms}"], ids=["plain", "checkpoints"])
def test_long_decimals_and_unsigned_numbers_are_exact(mill, kept):
    chance = random.Random(38)
    records = [
        (f"k{chance.randrange(4)}", Decimal(chance.randrange(-(10**36), 10**36)).scaleb(-10), chance.randrange(2**64))
        for _ in range(3_000)
    ]
    columns = [pa.array([it[0] for it in records]), pa.array([it[1] for it in records], pa.decimal128(38, 10)),
               pa.array([it[2] for it in records], pa.uint64())]
    pa.parquet.write_table(pa.table(columns, names=["k", "d", "u"]), mill.folder / "long.parquet")
    mill.write("""
out: {from: long, key: [k], window: {global: {}}, aggregate: {n: count(*), total: sum(d), least: min(d), most: max(d), first: first(d),
  last: last(d), of: count(distinct d), u_least: min(u), u_most: max(u), u_last: last(u), u_of: count(distinct u), u_mean: avg(u)}}""",
        sources=["long: {file: {path: long.parquet, format: parquet}}"], head=kept)
    mill.run()
    with open(mill.folder / "out.ndjson", encoding="utf-8") as file:
        rows = {row["k"]: row for row in (json.loads(line, parse_float=Decimal) for line in file)}
    assert len(rows) == 4
    with localcontext(prec=60):
        for k, row in rows.items():
            decimals = [it[1] for it in records if it[0] == k]
            numbers = [it[2] for it in records if it[0] == k]
            mean = row.pop("u_mean")
            assert list(row.values()) == [
                k, len(decimals), sum(decimals), min(decimals), max(decimals), decimals[0], decimals[-1], len(set(decimals)),
                min(numbers), max(numbers), numbers[-1], len(set(numbers)),
            ]
            assert float(mean) == pytest.approx(sum(numbers) / len(numbers))


@pytest.mark.parametrize("key", ["", "key: [origin], "], ids=["all", "origin"])
def test_approximate_distinct_is_within_five_percent(mill, db, key):
    rows = mill.out(f"out: {{from: flights, {key}window: {{global: {{}}}}, "
                    "aggregate: {tails: approx_distinct(tailnum), numbers: approx_distinct(flight)}}")
    column, group = ("origin", "group by origin") if key else ("null", "")
    answer = db.execute(
        f"select {column}, count(distinct tailnum), count(distinct flight) from flights {group}"
    )
    true = {origin: (tails, numbers) for origin, tails, numbers in answer.fetchall()}
    assert len(rows) == len(true)
    for row in rows:
        tails, numbers = true[row.get("origin")]
        assert abs(row["tails"] - tails) <= 0.05 * tails, (row, tails)
        assert abs(row["numbers"] - numbers) <= 0.05 * numbers, (row, numbers)


def test_quantiles_are_within_two_percent_of_their_rank(mill, db):
    shares = [0.01, 0.1, 0.25, 0.5, 0.9, 0.99]
    calls = ", ".join(f"q{i}: 'quantile(arr_delay, {q})'" for i, q in enumerate(shares))
    rows = mill.out(f"out: {{from: flights, key: [origin], window: {{global: {{}}}}, "
                    f"aggregate: {{{calls}, middle: median(arr_delay)}}}}")
    assert len(rows) == 3
    for row in rows:
        for name, share in [*((f"q{i}", q) for i, q in enumerate(shares)), ("middle", 0.5)]:
            below, to = db.execute(
                "select avg(cast(arr_delay < $1 as double)), avg(cast(arr_delay <= $1 as double)) "
                "from flights where origin = $2 and arr_delay is not null", [row[name], row["origin"]]
            ).fetchone()
            assert below - 0.02 <= share <= to + 0.02, (row["origin"], name, row[name], below, to)
