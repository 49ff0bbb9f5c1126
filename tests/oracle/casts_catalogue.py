"""Casts: each type to each, and `try_cast`."""

from cases import DAY, DECIMAL, FLOAT, NUMBER, WHOLE, Cases
from edges import TYPES

cases = Cases()
RANGES = {"i8": (-128, 127), "u8": (0, 255), "u16": (0, 65535), "u32": (0, 4294967295), "u64": (0, 18446744073709551615)}
# Toward zero, as the documents say; PostgreSQL rounds.


def to_number(sources, value):
    for kind in WHOLE.split():
        target = TYPES[kind]
        theirs = f"fitting({value}, {RANGES[kind][0]}, {RANGES[kind][1]})" if kind in RANGES else f"({value})::{target.postgres}"
        cases(f"cast({{a}} as {target.sql})", sources, theirs)
        cases(f"try_cast({{a}} as {target.sql})", sources, f"try({theirs})")


to_number(WHOLE, "{a}::numeric")
to_number(DECIMAL, "trunc({a})")
# Each float of a whole number has one; the server writes those without their last digits.
to_number(FLOAT, "whole({a}::double precision)")
for kind in WHOLE.split():
    target = TYPES[kind]
    low, high = RANGES.get(kind, (None, None))
    theirs = f"fitting({{a}}::numeric(38,0), {low}, {high})" if low is not None else f"{{a}}::{target.postgres}"
    cases(f"cast({{a}} as {target.sql})", "text", f"case when {{a}} is null then null when {{a}} ~ '^ *[+-]?[0-9]+ *$' then {theirs} else fitting(1, 2, 3)::text::{target.postgres} end" if low is not None else theirs)
    cases(f"cast({{a}} as {target.sql})", "bool", "{a}::int")
for kind in FLOAT.split():
    cases(f"cast({{a}} as {TYPES[kind].sql})", f"{WHOLE} {DECIMAL} text", f"{{a}}::{TYPES[kind].postgres}")
cases("cast({a} as double)", FLOAT, "{a}::double precision")
cases("cast({a} as real)", FLOAT, "{a}::real")
for kind in DECIMAL.split():
    cases(f"cast({{a}} as {TYPES[kind].sql})", f"{WHOLE} {DECIMAL} text", f"{{a}}::{TYPES[kind].postgres}")
    cases(f"cast({{a}} as {TYPES[kind].sql})", "f64", f"{{a}}::text::{TYPES[kind].postgres}", about=1e-15)
    cases(f"cast({{a}} as {TYPES[kind].sql})", "f32", f"{{a}}::text::{TYPES[kind].postgres}", about=1e-6)
    cases(f"try_cast({{a}} as {TYPES[kind].sql})", "text d38_10", f"try({{a}}::{TYPES[kind].postgres})")
cases("cast({a} as text)", f"{WHOLE} {DECIMAL} bool text")
cases("cast({a} as text)", "time", kind="time")
cases("cast({a} as text)", FLOAT, "{a}", kind="double precision")
cases("cast({a} as text)", DAY, "{a}")
cases("cast({a} as text)", "iv", "{a}")
cases("cast({a} as text)", "bin", "convert_from({a}, 'UTF8')")
cases("cast({a} as boolean)", "i64 i32", "{a} <> 0")
cases("cast({a} as boolean)", "text", "{a}::boolean")
cases("try_cast({a} as boolean)", "text", "try({a}::boolean)")
cases("cast({a} as boolean)", "f64 d20_2", "{a} <> 0")
for target, theirs in (("date", "date"), ("timestamp", "timestamp"), ("time", "time"), ("timestamp with time zone", "timestamptz")):
    cases(f"cast({{a}} as {target})", "text", f"{{a}}::{theirs}")
    cases(f"try_cast({{a}} as {target})", "text", f"try({{a}}::{theirs})")
for target, theirs in (("date", "{a}::date"), ("timestamp", "{a}::timestamp"), ("timestamp(0)", "date_trunc('second', {a}::timestamp)"), ("timestamp(3)", "date_trunc('milliseconds', {a}::timestamp)"), ("timestamp(6)", "{a}::timestamp"), ("timestamp(9)", "{a}::timestamp"), ("timestamp with time zone", "{a}::timestamptz")):
    cases(f"cast({{a}} as {target})", DAY, theirs)
cases("cast({a} as time)", "ts ts_s ts_ms ts_ns tz", "{a}::time")
cases("cast({a} as bigint)", "ts tz", "(extract(epoch from {a}) * 1000000)::bigint")
cases("cast({a} as bigint)", "ts_ms", "(extract(epoch from {a}) * 1000)::bigint")
cases("cast({a} as bigint)", "ts_s", "(extract(epoch from {a}))::bigint")
cases("cast({a} as bigint)", "date", "{a} - '1970-01-01'::date")
cases("{a}::bigint", "d20_2", "trunc({a}::numeric)::bigint")
for sign in ("=", "<", ">="):
    for pair in ("text|bool", "text|iv", "text|i64", "text|f64", "text|d20_2", "i64|text", "i64|bool", "i64|date", "i64|ts", "f64|ts", "date|time", "ts|time", "ts|iv", "bool|text", "bin|i64", "bool|f64", "li|lt", "li|i64"):
        cases(f"{{a}} {sign} {{b}}", pair)
    cases(f"{{a}} {sign} {{b}}", "text|date ts time")
    cases(f"{{a}} {sign} {{b}}", "date ts time|text")
    cases(f"{{a}} {sign} {{b}}", "bin|text", f"{{a}} {sign} convert_to({{b}}, 'UTF8')")
for constant in ("10", "10.0", "1e20", "'10'", "true", "-1e300"):
    for sign in ("=", "<", ">="):
        cases(f"{{a}} {sign} {constant}", "text i64 f64 d4_1 d38_10 u64 i8")
    cases(f"{{a}} in (1, {constant})", "text i64 f64 d20_2")
    cases(f"{{a}} between 0 and {constant}", "text i64 f64 d20_2 u64")
cases("cast({a} as bytea)", "text", "convert_to({a}, 'UTF8')")
