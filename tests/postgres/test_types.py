"""Values in a table are those of the rows, in tables that are made and in tables that are there."""

import json
import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal

import pytest

from mill import TIMED

ALL = """
cast:
  from: rows
  select:
    flag: flag
    tiny: CAST(n AS TINYINT)
    small: CAST(n AS SMALLINT)
    whole: CAST(n AS INT)
    long: n
    unsigned: CAST(n * n AS BIGINT UNSIGNED)
    single: CAST(x AS REAL)
    double: x
    price: CAST(x AS DECIMAL(12, 3))
    text: text
    bytes: CAST(text AS BYTEA)
    at: at
    day: CAST(at AS DATE)
    moment: CAST(at AS TIME)
    list: list
    object: object
"""
ROWS = [
    {"flag": True, "n": -7, "x": 2.5, "text": "ä 'quoted' \\ \t\n", "at": 1_700_000_000_123, "list": [1, None, 3], "object": {"a": "x", "b": [True]}},
    {"flag": False, "n": 127, "x": -0.125, "text": "", "at": -1, "list": [], "object": {"a": None, "b": []}},
    {"flag": None, "n": None, "x": None, "text": None, "at": 0, "list": None, "object": None},
]
MADE = {
    "flag": "boolean", "tiny": "smallint", "small": "smallint", "whole": "integer", "long": "bigint", "unsigned": "numeric(20,0)",
    "single": "real", "double": "double precision", "price": "numeric(12,3)", "text": "text", "bytes": "bytea",
    "at": "timestamp with time zone", "day": "date", "moment": "time without time zone", "list": "jsonb", "object": "jsonb",
}


def utc(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def expected(row):
    n, x, text, at = row["n"], row["x"], row["text"], utc(row["at"])
    squared = None if n is None else Decimal(n * n)
    price = None if x is None else Decimal(str(x)).quantize(Decimal("0.001"))
    raw = None if text is None else text.encode()
    return (row["flag"], n, n, n, n, squared, x, x, price, text, raw, at, at.date(), at.time(), row["list"], row["object"])


def test_every_type_is_made_and_reads_as_itself(mill):
    mill.input(ROWS)
    mill.job(mill.table("public.All Types", of="cast"), ALL, source=TIMED)
    mill.run("--data", "data")
    assert mill.database.columns('"public"."All Types"') == MADE
    found = mill.database.ask('SELECT * FROM "All Types" ORDER BY at DESC')
    assert found == [expected(row) for row in sorted(ROWS, key=lambda row: -row["at"])]
    assert isinstance(found[0][12], date) and isinstance(found[0][13], time)


def test_a_domain_over_a_domain_takes_what_its_type_takes(mill):
    mill.database.ask("CREATE DOMAIN amount AS numeric(8, 2)")
    mill.database.ask("CREATE DOMAIN price AS amount NOT NULL DEFAULT 1")
    mill.database.ask("CREATE DOMAIN cheap AS price CHECK (value < 100)")
    mill.database.ask("CREATE TABLE out (id bigint, price cheap, other cheap)")
    mill.input([{"id": 1, "price": 12}, {"id": 2, "price": 99}])
    mill.job(mill.table("out"))
    mill.run("--data", "data")
    assert mill.database.rows("out") == [(1, Decimal("12.00"), Decimal("1.00")), (2, Decimal("99.00"), Decimal("1.00"))]


def test_a_table_that_is_there_takes_what_fits_it(mill):
    mill.database.ask("CREATE TYPE mood AS ENUM ('good', 'bad')")
    mill.database.ask("CREATE DOMAIN percent AS smallint CHECK (value BETWEEN 0 AND 100)")
    mill.database.ask("CREATE SCHEMA \"Odd.Schema\"")
    mill.database.ask("""CREATE TABLE "Odd.Schema"."t"" " (
        extra serial, note text DEFAULT 'none', share percent, mood mood, "Id" uuid, doc jsonb, raw json, code varchar(5),
        small smallint NOT NULL, price numeric(8, 2), share_double double precision, local timestamp, total bigint GENERATED ALWAYS AS (small * 2) STORED)""")
    name = str(uuid.UUID(int=2**127 + 5))
    mill.input([
        {"share": 40, "mood": "good", "Id": name, "doc": '{"b": 1, "a": [null]}', "raw": "[1,  2]", "code": "äöüßé", "small": -3, "price": 12, "share_double": 5, "local": "2024-02-29T12:00:00.5+02:00"},
        {"share": None, "mood": None, "Id": None, "doc": None, "raw": None, "code": None, "small": 4, "price": None, "share_double": None, "local": None},
    ])
    source = "rows: {file: {path: rows.ndjson, format: json, schema: {local: timestamp}}}"
    table = '"Odd.Schema"."t"" "'
    mill.job(mill.table(table), source=source)
    mill.run("--data", "data")
    assert mill.database.ask(f"SELECT * FROM {table} ORDER BY extra") == [
        (1, "none", 40, "good", uuid.UUID(name), {"b": 1, "a": [None]}, [1, 2], "äöüßé", -3, Decimal("12.00"), 5.0, datetime(2024, 2, 29, 10, 0, 0, 500000), -6),
        (2, "none", None, None, None, None, None, None, 4, None, None, None, 8),
    ]
    assert mill.database.ask(f"SELECT raw::text FROM {table} WHERE extra = 1") == [("[1,  2]",)]
    assert mill.database.ask('SELECT target, cycle FROM "Odd.Schema".tidemill_sinks') == [('Odd.Schema.t" ', 1)]


REFUSED = {
    "text": ("text", "a\0b", "text", "it has a NUL character"),
    "long": ("varchar(3)", "abcd", "text", "it has more than the column's 3 characters"),
    "uuid": ("uuid", "4711", "text", "it is no UUID"),
    "json": ("jsonb", "{", "text", "it is no JSON"),
    "narrow": ("smallint", 40_000, "bigint", "40000 is outside of what the column can hold"),
    "inexact": ("double precision", 2**53 + 1, "bigint", "9007199254740993 cannot be held exactly by a float"),
    "digits": ("numeric(6,2)", 10_000, "bigint", "10000 has more digits than the column's `numeric(6,2)`"),
    "finer": ("timestamptz(3)", "2024-01-01T00:00:00.999600Z", "timestamp", "it has more digits of a second than the 3 of the column"),
    "null": ("bigint NOT NULL", None, "bigint", "it is null, and the table takes none there"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_no_column_can_hold_is_named(mill, case):
    """Rows of earlier cycles stay, and none of its own cycle is there."""
    kind, value, column, why = REFUSED[case]
    mill.database.ask(f"CREATE TABLE t (id bigint, v {kind})")
    good = {"text": "a", "bigint": 1, "timestamp": "2024-01-01T00:00:00.999Z"}[column]
    if kind == "uuid":
        good = str(uuid.UUID(int=7))
    good = "1" if kind == "jsonb" else good
    mill.input({"id": i, "v": value if i == 7 else good} for i in range(10))
    source = f"rows: {{file: {{path: rows.ndjson, format: json, schema: {{id: bigint, v: {column}}}}}}}"
    mill.job(mill.table("t"), head="cycle: {records: 5}", source=source)
    text = mill.run("--data", "data", code=1)
    assert f"row 3 of the cycle, column `v`: {why}" in text, text
    assert [row[0] for row in mill.database.rows("t")] in ([], list(range(5)))


def test_what_the_server_refuses_is_said_in_its_words(mill):
    mill.database.ask("CREATE TABLE t (id bigint CHECK (id < 700))")
    mill.input({"id": i} for i in range(1000))
    mill.job(mill.table("t"), head="cycle: {records: 100}")
    text = mill.run("--data", "data", code=1)
    assert 'violates check constraint "t_id_check"' in text and "SQLSTATE 23514" in text, text
    # Once it is out of the way, the job goes on where it was.
    mill.database.ask("ALTER TABLE t DROP CONSTRAINT t_id_check")
    mill.run("--data", "data", "--resume")
    assert mill.database.rows("t") == [(i,) for i in range(1000)]


def test_dead_letters_are_rows_too(mill):
    mill.input([{"id": 1}, {"id": "x"}, {"id": 3}])
    source = "rows: {file: {path: rows.ndjson, format: json, schema: {id: bigint}}}"
    mill.job(mill.table("t") + "\n" + mill.table("bad", of="dead_letter", sink="bad"), source=source)
    mill.run("--data", "data")
    assert mill.database.rows("t") == [(1,), (3,)]
    letters = mill.database.ask("SELECT stage, record FROM bad")
    assert [(stage, json.loads(record)) for stage, record in letters] == [("rows", {"id": "x"})]


def test_a_bad_record_that_no_text_can_hold_is_a_row_of_dead_letters(mill):
    (mill.folder / "rows.ndjson").write_bytes(b'{"id":1}\nno \x00 JSON\n{"id":3}\n')
    source = "rows: {file: {path: rows.ndjson, format: json, schema: {id: bigint}}}"
    mill.job(mill.table("t") + "\n" + mill.table("bad", of="dead_letter", sink="bad"), source=source)
    mill.run("--data", "data")
    assert mill.database.rows("t") == [(1,), (3,)]
    assert mill.database.ask("SELECT record FROM bad") == [("no \ufffd JSON",)]
