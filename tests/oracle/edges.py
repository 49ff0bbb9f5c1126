"""Values at the edges of their types, as tables with the same rows for the binary, PostgreSQL and DuckDB.

- Table `one` has a column `a_TYPE` for each type; `two` has `a_TYPE` and `b_TYPE`, and a row for each
  pair of edges; `three` has `c_TYPE` too, and fewer edges.
- Where a type has fewer edges than the table has places, they begin again."""

import math
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import product

import pyarrow as pa
from pyarrow import ipc

# Places in a row of each table: how many edges of a type stand there.
PLACES = {"one": 47, "two": 13, "three": 7}
ARGUMENTS = {"one": "a", "two": "ab", "three": "abc"}
EPOCH = datetime(1970, 1, 1)
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Type:
    """A type: in Arrow, in each engine's words, and its edges. The first edges stand in the smaller tables too."""

    arrow: pa.DataType
    sql: str
    postgres: str
    duckdb: str
    edges: tuple


def whole(bits, signed=True):
    most = 2 ** (bits - signed) - 1
    least = -most - 1 if signed else 0
    wanted = (0, 1, -1, most, least, None, 2, -2, most - 1, least + 1, 3, 7, 10, 100, -100, 63, 64, 1000, -7, most // 2, most // 3, 10**9, -(10**9), 15, 25, 35, 45, 55, -15, -25)
    return tuple(it for it in wanted if it is None or least <= it <= most)


def decimals(precision, scale):
    """Numbers of that many digits, with that many behind the point."""
    most, one = 10**precision - 1, 10**scale
    found = [0, 1, -1, most, -most, None]
    for number in (one, -one, one // 2, -(one // 2), 3 * one // 2, -3 * one // 2, 5 * one // 2, one - 1, 1 - one, 2 * one, 10 * one, 7, -7, most // 2, -(most // 2), most // 3, most - one, one - most, 12345, 99 * one, 100 * one + 49 * one // 100):
        if abs(number) <= most and number not in found:
            found.append(number)
    return tuple(None if it is None else exact(it, scale) for it in found)


def exact(number, scale):
    """The number with that many digits behind the point, however many it has."""
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


def moment(text):
    return datetime.fromisoformat(text)


FLOATS = (0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, None, -0.0, 0.5, 1e20, -1e300, 1e-16, 1.7976931348623157e308, 5e-324, -0.5, 1.5, 2.0, 2.5, -2.0, 0.1, 10.0, 3.0, -1.5, -2.5, 0.49999999999999994, 9007199254740993.0, 9.223372036854776e18, -9.223372036854776e18, 9.223372036854775e18, 100.0, 1e15, 123456789.123456789, 4.999999999999999, 1e38, 1e-7, 170.5, 720.0, 2147483648.0, -2147483648.5)
SINGLES = (0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, None, -0.0, 0.5, -0.5, 1.5, 2.5, 16777216.0, 3.4028234663852886e38, 1.401298464324817e-45, 0.10000000149011612, 100.0, 10.0)
TIMES = (*map(moment, ("1970-01-01T00:00:00", "1969-12-31T23:59:59.999999", "1969-12-31T23:59:58.500000", "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", "2000-02-29T12:34:56.789012")), None, *map(moment, (
    "1960-02-29T12:00:00.250000", "2262-04-11T23:47:16.854776", "1677-09-21T00:12:43", "2024-12-31T00:00:00", "2021-01-03T23:00:00", "1600-03-01T00:00:00", "1970-01-01T00:00:00.000001", "1582-10-15T00:00:00", "2262-04-11T23:47:16.854775", "1900-02-28T23:59:59.999999",
    "9999-01-01T00:00:00", "2020-12-31T23:59:59", "2004-10-19T10:23:54.500000", "0999-07-04T05:06:07.000008", "1969-12-31T00:00:00", "1970-01-31T00:00:00", "2024-03-31T02:30:00", "2024-10-27T02:30:00", "2026-01-01T00:00:00", "1969-12-29T00:00:00", "0004-02-29T00:00:00")))
DATES = (*map(date.fromisoformat, ("1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "2000-02-29", "1960-02-29")), None, *map(date.fromisoformat, (
    "2024-12-30", "2262-04-12", "1677-09-20", "2021-01-03", "1600-02-29", "1900-02-28", "1582-10-15", "1970-01-31", "2026-01-01", "0999-07-04")))
CLOCKS = (time(0), time(23, 59, 59, 999999), time(12, 34, 56, 789012), None, time(0, 0, 0, 1), time(1), time(0, 1), time(11, 59, 59, 500000))
# Months, days, microseconds.
LENGTHS = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0), (0, 0, -1), None, (0, 0, 86_400_000_000), (0, 31, 0), (-12 * 100, 0, 0), (12 * 9998, 0, 0), (13, 40, 90_061_000_001), (0, 0, -1_500_000), (0, -1, 0), (12 * 100, 0, 0), (0, 0, 3_600_000_000), (0, 0, 1_500_000), (0, 3_652_058, 0), (0, -719_162, 0), (0, 0, 9_000_000_000_000_000))
TEXTS = ("", "a", "abc", " a b ", "日本語", "ä", None, "12", "1.5", "N/A", "%", "1960-02-29", "x" * 300, "ABC", "-7", "a_c", "e\u0301", "🙂x", "ß", "Straße ÄÖ", "inf", "NaN", "true", "1e5", "2024-02-30", "1969-12-31T23:59:58.5", "9223372036854775808", "-9223372036854775808", "0x10", " 5", "+5", "0005", "1_000", "infinity", "-0.0", "12:34:56", "\t\n", "hello world", "tHOMAS", "0.12345678901234567890123456789012345678", "99999999999999999999999999999999999999", "1234567890.123456789012", ".5", "5.", "1e-7", "-1e20", "-0.05")
BYTES = (b"", b"a", b"\x00", b"\xff\xfe", None, b"abc", "ä".encode())
NUMBER_LISTS = ((), (1,), (1, 2, 3), None, (None,), (3, None, 1, 3), (2**63 - 1, -(2**63)), (0, 0), (5, 4, 3, 2, 1), (None, None), (2, 3))
TEXT_LISTS = ((), ("a",), ("a", "b", "c"), None, (None,), ("c", None, "a", "c"), ("",), ("", "ä", "日本語"), ("b", "a"))
FLOAT_LISTS = ((), (1.0,), (1.0, 2.0, 3.0), None, (None,), (0.0, -0.0), (3.0, 4.0), (1.5, None), (1e300, 1e300), (-1.0, 0.5, 2.0), (0.0,), (math.nan, 1.0), (math.inf, -math.inf))


def moments_in(unit, digits):
    """Those that have no more digits of a second."""
    keep = 10 ** (6 - digits)
    return tuple(it for it in TIMES if it is None or it.microsecond % keep == 0)


def clocks_in(digits):
    """Times of day that have no more digits of a second."""
    keep = 10 ** (6 - digits)
    return tuple(it for it in CLOCKS if it is None or it.microsecond % keep == 0)


def in_nanoseconds():
    near = moment("1677-09-22"), moment("2262-04-11")
    return tuple(it for it in TIMES if it is None or near[0] < it < near[1])


def lengths(edges):
    return tuple(None if it is None else pa.MonthDayNano([it[0], it[1], it[2] * 1000]) for it in edges)


TYPES = {
    "i8": Type(pa.int8(), "tinyint", "smallint", "tinyint", whole(8)),
    "i16": Type(pa.int16(), "smallint", "smallint", "smallint", whole(16)),
    "i32": Type(pa.int32(), "int", "integer", "integer", whole(32)),
    "i64": Type(pa.int64(), "bigint", "bigint", "bigint", whole(64)),
    "u8": Type(pa.uint8(), "tinyint unsigned", "smallint", "utinyint", whole(8, False)),
    "u16": Type(pa.uint16(), "smallint unsigned", "integer", "usmallint", whole(16, False)),
    "u32": Type(pa.uint32(), "int unsigned", "bigint", "uinteger", whole(32, False)),
    "u64": Type(pa.uint64(), "bigint unsigned", "numeric(20,0)", "ubigint", whole(64, False)),
    "f32": Type(pa.float32(), "real", "real", "real", SINGLES),
    "f64": Type(pa.float64(), "double", "double precision", "double", FLOATS),
    "d2_1": Type(pa.decimal128(2, 1), "decimal(2,1)", "numeric(2,1)", "decimal(2,1)", decimals(2, 1)),
    "d4_1": Type(pa.decimal128(4, 1), "decimal(4,1)", "numeric(4,1)", "decimal(4,1)", decimals(4, 1)),
    "d18_4": Type(pa.decimal128(18, 4), "decimal(18,4)", "numeric(18,4)", "decimal(18,4)", decimals(18, 4)),
    "d20_2": Type(pa.decimal128(20, 2), "decimal(20,2)", "numeric(20,2)", "decimal(20,2)", decimals(20, 2)),
    "d38_0": Type(pa.decimal128(38, 0), "decimal(38,0)", "numeric(38,0)", "decimal(38,0)", decimals(38, 0)),
    "d38_10": Type(pa.decimal128(38, 10), "decimal(38,10)", "numeric(38,10)", "decimal(38,10)", decimals(38, 10)),
    "d38_38": Type(pa.decimal128(38, 38), "decimal(38,38)", "numeric(38,38)", "decimal(38,38)", decimals(38, 38)),
    "bool": Type(pa.bool_(), "boolean", "boolean", "boolean", (True, False, None)),
    "text": Type(pa.string(), "text", "text", "varchar", TEXTS),
    "date": Type(pa.date32(), "date", "date", "date", DATES),
    "ts": Type(pa.timestamp("us"), "timestamp", "timestamp", "timestamp", TIMES),
    "ts_s": Type(pa.timestamp("s"), "timestamp(0)", "timestamp", "timestamp", moments_in("s", 0)),
    "ts_ms": Type(pa.timestamp("ms"), "timestamp(3)", "timestamp", "timestamp", moments_in("ms", 3)),
    "ts_ns": Type(pa.timestamp("ns"), "timestamp(9)", "timestamp", "timestamp", in_nanoseconds()),
    "tz": Type(pa.timestamp("us", "UTC"), "timestamp with time zone", "timestamptz", "timestamptz", TIMES),
    "time": Type(pa.time64("us"), "time", "time", "time", CLOCKS),
    "t_s": Type(pa.time32("s"), "time", "time", "time", clocks_in(0)),
    "t_ms": Type(pa.time32("ms"), "time", "time", "time", clocks_in(3)),
    "t_ns": Type(pa.time64("ns"), "time", "time", "time", CLOCKS),
    "iv": Type(pa.month_day_nano_interval(), "interval", "interval", "interval", LENGTHS),
    "bin": Type(pa.binary(), "bytea", "bytea", "blob", BYTES),
    "li": Type(pa.list_(pa.int64()), "bigint[]", "bigint[]", "bigint[]", NUMBER_LISTS),
    "lt": Type(pa.list_(pa.string()), "text[]", "text[]", "varchar[]", TEXT_LISTS),
    "lf": Type(pa.list_(pa.float64()), "double[]", "double precision[]", "double[]", FLOAT_LISTS),
}


def names(table):
    """The columns of a table but `id`: name, type, and its place among the arguments."""
    return [(f"{argument}_{name}", kind, place) for place, argument in enumerate(ARGUMENTS[table]) for name, kind in TYPES.items()]


def places(table):
    """For each row, which edge stands in each place."""
    return list(product(range(PLACES[table]), repeat=len(ARGUMENTS[table])))


def shown_in(table, kind):
    """The edges of a type that a table has."""
    return kind.edges[: PLACES[table]]


def column(table, kind, place):
    edges = shown_in(table, kind)
    return [edges[row[place] % len(edges)] for row in places(table)]


def arrow(table, folder):
    """Writes the table as a file for the binary."""
    columns = {"id": pa.array(range(len(places(table))), pa.int64())}
    for name, kind, place in names(table):
        values = column(table, kind, place)
        if kind.arrow == TYPES["iv"].arrow:
            values = lengths(values)
        elif pa.types.is_timestamp(kind.arrow):
            # pyarrow would take each for a time of its own zone's.
            per_second = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[kind.arrow.unit]
            values = [None if it is None else ticks(it, per_second) for it in values]
        columns[name] = pa.array(values, kind.arrow)
    made = pa.table(columns)
    with ipc.new_file(str(folder / f"{table}.arrow"), made.schema) as file:
        file.write_table(made)


def ticks(moment, per_second):
    apart = moment - EPOCH
    micros = (apart.days * 86_400 + apart.seconds) * 10**6 + apart.microseconds
    return micros * per_second // 10**6


def postgres_text(kind, value):
    """A value as PostgreSQL reads it."""
    if value is None:
        return None
    if kind.sql == "interval":
        return f"{value[0]} mons {value[1]} days {value[2]} us"
    if kind.sql == "bytea":
        return "\\x" + value.hex()
    if isinstance(value, tuple):
        return "{" + ",".join("NULL" if it is None else f'"{it}"' for it in value) + "}"
    return str(value)


def literal(kind, value):
    """A value as a constant of an expression of a job; none if there is no way to write it."""
    if value is None:
        return None if kind.sql == "interval" else f"cast(null as {kind.sql})"
    if kind.sql == "interval":
        return "interval '{} months {} days {} microseconds'".format(*value)
    if isinstance(value, (tuple, bytes)):
        return None
    written = f"{value:f}" if isinstance(value, Decimal) else value
    return f"cast('{written}' as {kind.sql})"
