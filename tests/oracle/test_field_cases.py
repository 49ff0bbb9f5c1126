"""Inputs on which users of comparable engines lost values or got wrong ones: the right values."""

import json
from decimal import Decimal

import pytest

import comparison
from mill import Mill


@pytest.fixture
def mill(binary, tmp_path):
    return Mill(binary, None, tmp_path)


def write(mill, name, rows):
    (mill.folder / name).write_text("".join(json.dumps(it) + "\n" for it in rows), encoding="utf-8")


def by_id(rows):
    return {row["id"]: {name: value for name, value in row.items() if name != "id"} for row in rows}


def decimals(rows):
    """Numbers by id, however many digits they are written with, and whether a zero has a sign."""
    return {key: {name: (Decimal(it), it.startswith("-")) for name, it in row.items()} for key, row in by_id(rows).items()}


def test_floor_and_ceil_of_decimals_at_the_end_of_their_type(mill):
    # apache/datafusion#20640 and #22511.
    prices = ["-999.9", "999.9", "9.9", "-9.9", "-0.1", "0.1", "998.1", "-998.1"]
    write(mill, "prices.ndjson", [{"id": i, "p": it} for i, it in enumerate(prices, 1)])
    out = mill.results(
        """
rounded:
  from: prices
  select:
    id: id
    down: cast(floor(cast(p as decimal(4, 1))) as text)
    up: cast(ceil(cast(p as decimal(4, 1))) as text)
small:
  from: prices
  where: p in ('9.9', '-9.9', '-0.1', '0.1')
  select:
    id: id
    down: cast(floor(cast(p as decimal(2, 1))) as text)
    up: cast(ceil(cast(p as decimal(2, 1))) as text)
    nearest: cast(round(cast(p as decimal(2, 1))) as text)""",
        "rounded small dead_letter",
        ["prices: {file: {path: prices.ndjson, format: json, schema: {id: bigint, p: text}}}"],
    )

    def expected(**rows):
        return {int(key[1:]): {name: (Decimal(it), it < 0) for name, it in row.items()} for key, row in rows.items()}

    assert out["dead_letter"] == []
    assert decimals(out["rounded"]) == expected(
        r1={"down": -1000, "up": -999}, r2={"down": 999, "up": 1000}, r3={"down": 9, "up": 10}, r4={"down": -10, "up": -9},
        r5={"down": -1, "up": 0}, r6={"down": 0, "up": 1}, r7={"down": 998, "up": 999}, r8={"down": -999, "up": -998})
    assert decimals(out["small"]) == expected(
        r3={"down": 9, "up": 10, "nearest": 10}, r4={"down": -10, "up": -9, "nearest": -10},
        r5={"down": -1, "up": 0, "nearest": 0}, r6={"down": 0, "up": 1, "nearest": 0})


TIMES = {
    1: ("1960-02-29T12:00:00.25Z", -310478400, "1960-02-29T12:00:00Z", "1960-02-29T12:00:00Z", -310478399.75, "1960-02-29", 1960),
    2: ("1969-12-31T23:59:58.5Z", -2, "1969-12-31T23:59:58Z", "1969-12-31T23:59:00Z", -1.5, "1969-12-31", 1969),
    3: ("1969-12-31T23:59:59.999Z", -1, "1969-12-31T23:59:59Z", "1969-12-31T23:59:00Z", -0.001, "1969-12-31", 1969),
    4: ("1970-01-01T00:00:00.75Z", 0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 0.75, "1970-01-01", 1970),
    5: ("1970-01-01T00:00:30Z", 30, "1970-01-01T00:00:30Z", "1970-01-01T00:00:00Z", 30.0, "1970-01-01", 1970),
}


def test_times_before_1970(mill):
    # NVIDIA/cudf#5166, apache/paimon#9577, apache/datafusion#25425, influxdata/flux#2856, FLINK-26334, SPARK-39347.
    write(mill, "events.ndjson", [{"id": key, "ts": row[0]} for key, row in TIMES.items()])
    out = mill.results(
        """
parts:
  from: events
  select:
    id: id
    unix: to_unixtime(ts)
    unix_of_cut: to_unixtime(date_trunc('second', ts))
    as_bigint: cast(ts as bigint)
    whole: to_timestamp_seconds(ts)
    cast_to_seconds: cast(ts as timestamp(0))
    cut_second: date_trunc('second', ts)
    cut_minute: date_trunc('minute', ts)
    bin: date_bin(interval '1 minute', ts)
    epoch: date_part('epoch', ts)
    sec: date_part('second', ts)
    on_day: cast(ts as date)
    in_year: date_part('year', ts)
    shown: to_char(ts, '%Y-%m-%d %H:%M:%S')
minutes: {from: events, window: {tumbling: 1m}, aggregate: {n: count(*)}}
slid: {from: events, window: {sliding: {size: 90s, every: 1m}}, aggregate: {n: count(*)}}""",
        "parts minutes slid dead_letter",
        ["events: {file: {path: events.ndjson, format: json, schema: {id: bigint, ts: timestamp}}, time: {field: ts}}"],
    )
    assert out["dead_letter"] == []
    for key, row in by_id(out["parts"]).items():
        text, unix, second, minute, epoch, day, year = TIMES[key]
        day_of, micros = comparison.moment(text)
        assert row == {
            "unix": unix, "unix_of_cut": unix, "as_bigint": day_of * 86_400_000_000 + int(micros),
            "whole": second, "cast_to_seconds": second, "cut_second": second, "cut_minute": minute, "bin": minute, "epoch": epoch,
            "sec": int(second[17:19]), "on_day": day, "in_year": year, "shown": second[:19].replace("T", " ")}, key
    assert len(out["parts"]) == len(TIMES)
    assert counts(out["minutes"]) == {
        ("1960-02-29T12:00:00Z", "1960-02-29T12:01:00Z", 1),
        ("1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z", 2),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z", 2)}
    assert counts(out["slid"]) == {
        ("1960-02-29T11:59:00Z", "1960-02-29T12:00:30Z", 1),
        ("1960-02-29T12:00:00Z", "1960-02-29T12:01:30Z", 1),
        ("1969-12-31T23:59:00Z", "1970-01-01T00:00:30Z", 3),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:01:30Z", 2)}


def counts(rows):
    return {(row["window_start"], row["window_end"], row["n"]) for row in rows}


STOCK = [(1, "9", "9"), (2, "10", "10"), (3, "10.5", "10.0"), (4, "100", "x"), (5, "n/a", "100"), (6, "1000", "010")]
# By the condition: which ids it holds for as a condition on numbers.
ON_NUMBERS = {
    "qty > 10": {3, 4, 6}, "qty > 10.0": {3, 4, 6}, "10 < qty": {3, 4, 6}, "qty between 5 and 100": {1, 2, 3, 4},
    "qty in (9, 100)": {1, 4}, "qty = cap": {2, 4}, "cap > qty": {1}, "qty <> 10": {1, 3, 4, 6},
}


@pytest.mark.parametrize("condition", ON_NUMBERS)
def test_text_is_not_compared_with_numbers_as_text(mill, condition):
    # apache/datafusion#15161, #20426, #957, #22587. One value of the column is no number, so it is text.
    (mill.folder / "stock.csv").write_text("id,qty,cap\n" + "".join(f"{i},{qty},{({2: 10, 4: 100}).get(i, 9.5)}\n" for i, qty, _ in STOCK))
    mill.write(
        f'out: {{from: stock, where: "{condition}", select: {{id: id}}}}', "out dead_letter",
        ["stock: {file: {path: stock.csv, format: csv, schema: {cap: double}}}"])
    ran = mill.run(code=2)
    (error,) = json.loads(ran.stdout.splitlines()[-1])["errors"]
    assert "qty" in error["message"] or "text" in error["message"], error
    assert "cast" in error["message"] or "cast" in (error["expected"] or ""), error
    # The way out that it names is one.
    cast = condition.replace("qty", "cast(qty as double)")
    out = mill.results(
        f'out: {{from: stock, where: "{cast}", select: {{id: id}}}}', "out dead_letter",
        ["stock: {file: {path: stock.csv, format: csv, schema: {cap: double}}}"])
    assert {row["id"] for row in out["out"]} == ON_NUMBERS[condition]
    assert len(out["dead_letter"]) == 1 and "n/a" in out["dead_letter"][0]["reason"]


def test_the_same_text_in_json(mill):
    write(mill, "stock.ndjson", [{"id": i, "qty": "N/A" if i == 5 else float(qty) if "." in qty else int(qty)} for i, qty, _ in STOCK])
    mill.write("out: {from: stock, where: qty > 10, select: {id: id}}", "out", ["stock: {file: {path: stock.ndjson, format: json}}"])
    assert "cast" in mill.run(code=2).stdout


INF = "inf"
OFFERS = {
    # Price, cap; whether the price is below, above and the same.
    1: ("5.00", 1e20, True, False, False),
    2: ("5.00", INF, True, False, False),
    3: ("5.00", "NaN", True, False, False),
    4: ("0.00", 1e-16, True, False, False),
    5: ("5.00", 5.0, False, False, True),
    6: ("5.00", 4.999999999999999, False, True, False),
    7: ("5.00", "-inf", False, True, False),
    8: ("5.00", None, None, None, None),
    # As floats; taken exactly the price is 0.11 less.
    9: ("12345678901234567.89", 1.2345678901234568e16, False, False, True),
    10: ("0.10", 0.1, False, False, True),
}


def test_a_decimal_against_a_float(mill):
    # apache/datafusion#14272 and #22448.
    write(mill, "offers.ndjson", [{"id": key, "price": row[0], "cap": row[1]} for key, row in OFFERS.items()])
    out = mill.results(
        """
priced: {from: offers, select: {id: id, cap: cap, price: "cast(price as decimal(20, 2))"}}
compared:
  from: priced
  select:
    id: id
    below: price < cap
    above: cap < price
    same: price = cap
    highest: cast(greatest(price, cap) as text)
kept: {from: priced, where: price < cap, select: {id: id}}
between: {from: priced, where: price between 0 and cap, select: {id: id}}
constants: {from: priced, where: price < 1e20 and price > -1e300, select: {id: id}}""",
        "compared kept between constants dead_letter",
        ["offers: {file: {path: offers.ndjson, format: json, schema: {id: bigint, price: text, cap: double}}}"],
    )
    assert out["dead_letter"] == []
    found = by_id(out["compared"])
    assert {key: (row["below"], row["above"], row["same"]) for key, row in found.items()} == {key: row[2:] for key, row in OFFERS.items()}
    highest = {key: float(row["highest"]) for key, row in found.items()}
    assert str(highest.pop(3)) == "nan"
    assert highest == {1: 1e20, 2: float("inf"), 4: 1e-16, 5: 5.0, 6: 5.0, 7: 5.0, 8: 5.0, 9: 1.2345678901234568e16, 10: 0.1}
    assert {row["id"] for row in out["kept"]} == {1, 2, 3, 4}
    assert {row["id"] for row in out["between"]} == {1, 2, 3, 4, 5, 9, 10}
    assert {row["id"] for row in out["constants"]} == set(OFFERS)
