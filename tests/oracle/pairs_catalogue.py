"""Pairs of unlike types: each cast, each arithmetic operator, comparisons and choices."""

from cases import DAY, DECIMAL, FLOAT, WHOLE, Cases
from edges import TYPES

cases = Cases()
NEAR = 4e-15
CLOCK = "time t_s t_ms t_ns"
LISTS = "li lt lf"
NUMBERS = f"{WHOLE} {DECIMAL} {FLOAT}"
ZONED = "timestamp with time zone"

# Times as the count of their unit since 1970, or since midnight. PostgreSQL has no such casts.
PER_SECOND = {"ts": 10**6, "ts_s": 1, "ts_ms": 10**3, "ts_ns": 10**9, "tz": 10**6, "time": 10**6, "t_s": 1, "t_ms": 10**3, "t_ns": 10**9}
for kind, per in PER_SECOND.items():
    count = f"(extract(epoch from {{a}}) * {per})"
    cases("cast({a} as bigint)", kind, f"{count}::bigint")
    if not kind.startswith("t_") and kind != "time":
        cases("cast({a} as double)", kind, f"{count}::double precision")
        cases("cast({a} as decimal(38,0))", kind, f"{count}::numeric(38,0)")
        cases("cast({a} as tinyint)", kind, f"fitting({count}, -128, 127)")
cases("cast({a} as int)", "date", "{a} - '1970-01-01'::date")
for kind in f"{WHOLE} {DECIMAL} f64".split():
    count = "whole({a})" if kind == "f64" else "trunc({a}::numeric)"
    cases("cast({a} as timestamp)", kind, f"moment({count})")
    cases(f"cast({{a}} as {ZONED})", kind, f"moment({count})")
for cast, theirs in (("cast", "{}"), ("try_cast", "try({})")):
    cases(f"{cast}({{a}} as date)", "i32 i64", theirs.format("'1970-01-01'::date + {a}::int"))
    cases(f"{cast}({{a}} as time)", "i64", theirs.format("'00:00'::time + fitting({a}, 0, 86399999999)::bigint * interval '1 microsecond'"))

# Casts that neither has, and those that one of them has.
for target in ("date", "timestamp", "time", ZONED, "interval", "bytea"):
    others = {"date": f"{FLOAT} {DECIMAL} bool i8", "time": f"{FLOAT} d20_2 bool i32 u64", "timestamp": "bool", ZONED: "bool"}.get(target, f"{NUMBERS} bool")
    for cast in ("cast", "try_cast"):
        sources = f"{others} {CLOCK} iv {LISTS}" if target == "bytea" else f"{others} {CLOCK} iv bin {LISTS}"
        theirs = "{a}::" + {ZONED: "timestamptz"}.get(target, target)
        if target != "time":
            cases(f"{cast}({{a}} as {target})", sources, theirs)
        else:
            cases(f"{cast}({{a}} as time)", f"{others} iv bin {LISTS}", theirs)
            cases(f"{cast}({{a}} as time)", CLOCK, "{a}")
cases("cast({a} as time)", "date", "{a}::time")
cases("cast({a} as interval)", f"text {DAY}", "{a}::interval")
cases("cast({a} as bytea)", DAY, "{a}::bytea")
for kind in "i32 i64 d20_2 f64 bool".split():
    cases(f"cast({{a}} as {TYPES[kind].sql})", f"iv bin {LISTS}", f"{{a}}::{TYPES[kind].postgres}")
for kind in f"{DECIMAL} {FLOAT}".split():
    cases(f"cast({{a}} as {TYPES[kind].sql})", "bool", f"{{a}}::int::{TYPES[kind].postgres}")
cases("cast({a} as boolean)", NUMBERS, "{a} <> 0")
cases("cast({a} as text)", "t_s t_ms t_ns", kind="time")

# Casts of lists give what casts of their elements give.
for kind in "i8 i64 d4_1 d20_2 d38_38 f64 bool date ts time".split():
    for cast, theirs in (("cast", "{}"), ("try_cast", "try({})")):
        target = TYPES[kind]
        single = {"i8": "fitting({a}::numeric(38,0), -128, 127)"}.get(kind, f"{{a}}::{target.postgres}")
        cases(f"{cast}(make_array({{a}}) as {target.sql}[])[1]", "text" if kind != "i8" else "i64 d20_2", theirs.format(single if kind != "i8" else "fitting(trunc({a}::numeric), -128, 127)"))
for target, theirs in (("timestamp(0)", "date_trunc('second', {a})"), ("date", "{a}::date"), ("text", "{a}")):
    cases(f"cast(make_array({{a}}) as {target}[])[1]", "ts", theirs)
cases("cast(make_array({a}) as double[])[1]", "d38_10 d38_38", "{a}::double precision")

MIXED = "i8 i32 i64 d4_1 d20_2 d38_0 d38_38 f32 f64".split()
for one in MIXED:
    for other in MIXED:
        if one == other:
            continue
        for sign in "+-*/%":
            if not {one, other} & set(FLOAT.split()):
                cases(f"{{a}} {sign} {{b}}", f"{one}|{other}", digits=sign == "/")
            elif sign == "%":
                cases("{a} % {b}", f"{one}|{other}", "{a}::double % {b}::double", engine="duckdb")
            else:
                cases(f"{{a}} {sign} {{b}}", f"{one}|{other}", f"{{a}}::double precision {sign} {{b}}::double precision", about=NEAR)
        for sign in ("=", "<"):
            cases(f"{{a}} {sign} {{b}}", f"{one}|{other}")
for one in "u8 u32 u64".split():
    for other in "u8 u32 u64".split():
        for sign in "+-*/%":
            if one != other:
                cases(f"{{a}} {sign} {{b}}", f"{one}|{other}", f"{{a}} {'//' if sign == '/' else sign} {{b}}", engine="duckdb")

KINDS = f"i64 f64 d20_2 bool text date ts ts_s ts_ns tz time t_s t_ms t_ns iv bin {LISTS}".split()
for one in KINDS:
    for other in KINDS:
        if one != other:
            for sign in "=+-":
                cases(f"{{a}} {sign} {{b}}", f"{one}|{other}")
            cases("coalesce({a}, {b})", f"{one}|{other}", lists=one in LISTS.split())
for name in ("greatest", "least", "nullif"):
    cases(f"{name}({{a}}, {{b}})", "time t_s|t_ms t_ns")
    cases(f"{name}({{a}}, {{b}})", "text|i64 f64 d20_2 date ts time")
cases("{a} between {b} and {c}", "t_s|t_ms|t_ns", "{a} between {b} and {c}")
cases("{a} in ({b}, {c})", "time|t_s|t_ns")
cases("case {a} when {b} then 1 when {c} then 2 end", "t_ms|time|t_ns")
for constant in ("12:34:56", "12:34:56.789012", "00:00", "11:59:59.5"):
    for sign in ("=", "<", ">="):
        cases(f"{{a}} {sign} '{constant}'", CLOCK)
for sign in "+-":
    cases(f"{{a}} {sign} {{b}}", f"{CLOCK}|iv")
    cases(f"{{a}} {sign} interval '1500 milliseconds'", CLOCK)

# Whole, as the documents say.
for part in ("century", "day", "decade", "dow", "doy", "isodow", "isoyear", "julian", "millennium", "month", "quarter", "week", "year"):
    cases(f"date_part('{part}', {{a}})", f"{CLOCK} i64 text bool")
for part in ("century", "decade", "julian", "millennium"):
    cases(f"date_part('{part}', {{a}})", f"{DAY} iv")
for part in ("dow", "doy", "isodow", "isoyear", "quarter", "week"):
    cases(f"date_part('{part}', {{a}})", "iv")
for part in ("hour", "minute", "epoch"):
    cases(f"date_part('{part}', {{a}})", "t_s t_ms t_ns i64 text bool", about=1e-15 if part == "epoch" else 0.0)
for part, theirs in (("second", "trunc(extract(second from {a}))"), ("millisecond", "trunc(extract(milliseconds from {a}))"), ("microsecond", "extract(microseconds from {a})"), ("nanosecond", "extract(microseconds from {a}) * 1000")):
    cases(f"date_part('{part}', {{a}})", "t_s t_ms t_ns", theirs)
    cases(f"date_part('{part}', {{a}})", "date", theirs.replace("{a}", "{a}::timestamp"))
for unit in ("microsecond", "millisecond", "second", "minute", "hour"):
    cases(f"date_trunc('{unit}', {{a}})", "t_s t_ms t_ns", f"date_trunc('{unit}', {{a}})")
for stride in ("7 seconds", "15 minutes", "1500 milliseconds"):
    cases(f"date_bin(interval '{stride}', {{a}})", CLOCK, f"date_bin('{stride}', '1970-01-01'::date + {{a}}, '1970-01-01')::time")
