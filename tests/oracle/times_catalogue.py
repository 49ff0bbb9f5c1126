"""Times, dates, times of day and lengths of time."""

from cases import DAY, MOMENT, Cases

cases = Cases()
UNITS = "microsecond millisecond second minute hour day week month quarter year".split()
PARTS = "year quarter month week day doy dow isodow isoyear hour minute epoch".split()
MONTHLESS = [("1 microsecond", None), ("1500 milliseconds", None), ("1 second", None), ("7 seconds", None), ("1 minute", None), ("15 minutes", None), ("90 minutes", None), ("1 hour", None), ("1 day", None), ("1 week", None), ("40 days", None)]

for part in PARTS:
    cases(f"date_part('{part}', {{a}})", DAY, about=1e-15 if part == "epoch" else 0.0)
    cases(f"extract({part} from {{a}})", DAY, f"extract({part} from {{a}}::timestamp)", about=1e-15 if part == "epoch" else 0.0)
for part in ("hour", "minute", "epoch"):
    cases(f"date_part('{part}', {{a}})", "time iv", about=1e-15 if part == "epoch" else 0.0)
for part in ("year", "month", "day"):
    cases(f"date_part('{part}', {{a}})", "iv")
# Whole, as the documents say: the fraction is in `millisecond` and `microsecond`.
for name in ("date_part", "datepart"):
    cases(f"{name}('second', {{a}})", f"{MOMENT} time iv", "trunc(extract(second from {a}))")
cases("date_part('millisecond', {a})", f"{MOMENT} time iv", "trunc(extract(milliseconds from {a}))")
cases("date_part('microsecond', {a})", f"{MOMENT} time iv", "extract(microseconds from {a})")
cases("date_part('nanosecond', {a})", f"{MOMENT} time iv", "extract(microseconds from {a}) * 1000")

for unit in UNITS:
    cases(f"date_trunc('{unit}', {{a}})", f"{DAY}", f"date_trunc('{unit}', {{a}})")
cases("datetrunc('month', {a})", "ts", "date_trunc('month', {a})")
for unit in ("microsecond", "millisecond", "second", "minute", "hour"):
    cases(f"date_trunc('{unit}', {{a}})", "time", f"date_trunc('{unit}', {{a}})")
for stride, _ in MONTHLESS:
    cases(f"date_bin(interval '{stride}', {{a}})", DAY, f"date_bin('{stride}', {{a}}, '1970-01-01')")
    cases(f"date_bin(interval '{stride}', {{a}}, timestamp '2001-02-03T04:05:06')", "ts tz", f"date_bin('{stride}', {{a}}, '2001-02-03T04:05:06')")
for months in (1, 3, 12, 1200):
    cases(f"date_bin(interval '{months} months', {{a}})", "ts ts_ms date", f"date_trunc('month', {{a}}) - make_interval(months => mod(mod(((extract(year from {{a}}) - 1970) * 12 + extract(month from {{a}}) - 1)::int, {months}) + {months}, {months}))")

for sign in "+-":
    cases(f"{{a}} {sign} {{b}}", f"{MOMENT}|iv")
    cases(f"{{a}} {sign} {{b}}", "date|iv")
    cases(f"{{a}} {sign} {{b}}", "iv|iv")
    cases(f"{{a}} {sign} {{b}}", "time|iv")
    cases(f"{{a}} {sign} {{b}}", "date|i32")
    cases(f"{{a}} {sign} {{b}}", "date|i64", f"case when {{a}} is not null then {{a}} {sign} {{b}}::int end")
cases("{b} + {a}", "ts date|iv")
cases("{a} - {b}", "ts|ts ts_s ts_ns date", kind="span")
cases("{a} - {b}", "tz|tz", kind="span")
cases("{a} - {b}", "date|ts", kind="span")
cases("{a} - {b}", "date|date")
cases("{a} - {b}", "time|time", kind="span")
cases("-{a}", "iv")
cases("{a} + 1", "date")
for size in ("1 month", "1 day", "100 years", "1 microsecond", "-1 month"):
    cases(f"{{a}} + interval '{size}'", f"{DAY}")
    cases(f"{{a}} - interval '{size}'", f"{DAY}")

PAIRS = "ts|ts_s ts_ms ts_ns tz date", "date|ts ts_ms tz date", "tz|tz ts", "time|time", "iv|iv", "ts|ts"
for sign in ("=", "<>", "<", "<=", ">", ">=", "is distinct from"):
    for pair in PAIRS:
        cases(f"{{a}} {sign} {{b}}", pair)
for name in ("greatest", "least", "coalesce", "nullif", "nvl"):
    for pair in ("ts|ts ts_ms ts_ns date", "date|ts date", "time|time", "tz|tz"):
        cases(f"{name}({{a}}, {{b}})", pair, "coalesce({a}, {b})" if name == "nvl" else None)
cases("{a} between {b} and {c}", "ts|date|ts_ms")
cases("{a} in ({b}, {c})", "ts|date|ts_ns")
cases("{a} in ({b}, {c})", "iv|iv|iv")
for constant in ("1969-12-31T23:59:58.5", "9999-12-31T23:59:59.999999", "0001-01-01", "1970-01-01"):
    for sign in ("=", "<", ">="):
        cases(f"{{a}} {sign} '{constant}'", f"{DAY}")
cases("{a} is null", f"{DAY} time iv")

cases("make_date({a}, {b}, {c})", "i32|i32|i32")
cases("make_date({a}, {b}, {c})", "i64|i64|i64", "make_date({a}::int, {b}::int, {c}::int)")
cases("make_time({a}, {b}, {c})", "i32|i32|i32")
cases("to_unixtime({a})", f"{DAY}", "floor(extract(epoch from {a}))::bigint")
cases("to_timestamp_seconds({a})", f"{DAY}", "date_trunc('second', {a})")
cases("to_timestamp_millis({a})", f"{DAY}", "date_trunc('milliseconds', {a})")
cases("to_timestamp_micros({a})", f"{DAY}", "{a}::timestamp")
cases("to_timestamp_nanos({a})", f"{DAY}", "{a}::timestamp")
cases("to_timestamp({a})", f"{DAY}", "{a}::timestamp")
cases("to_date({a})", f"{DAY}", "{a}::date")
cases("to_local_time({a})", "ts tz", "{a}::timestamp")
cases("to_time({a})", "text", "{a}::time")
cases("to_date({a})", "text", "{a}::date")
cases("to_timestamp({a})", "text", "{a}::timestamp")
cases("to_timestamp_micros({a})", "text", "{a}::timestamp")
cases("to_timestamp_millis({a})", "text", "date_trunc('milliseconds', {a}::timestamp)")
cases("to_timestamp_seconds({a})", "text", "date_trunc('seconds', {a}::timestamp)")
cases("to_timestamp_nanos({a})", "text", "{a}::timestamp")
for name, per in (("to_timestamp", 10**6), ("to_timestamp_seconds", 10**6), ("from_unixtime", 10**6), ("to_timestamp_millis", 10**3), ("to_timestamp_micros", 1)):
    cases(f"{name}({{a}})", "i64", f"moment({{a}}::numeric * {per})")
cases("to_timestamp_nanos({a})", "i64", "moment(floor({a}::numeric / 1000))", kind="microseconds")
FORMATS = ("%Y-%m-%d %H:%M:%S", "YYYY-MM-DD HH24:MI:SS"), ("%j", "DDD"), ("%G-W%V", 'IYYY-"W"IW'), ("%I:%M %p", "HH12:MI AM"), ("%H:%M:%S%.6f", "HH24:MI:SS.US"), ("%a %b", "Dy Mon"), ("%A %B", "FMDay FMMonth"), ("%y", "YY"), ("%u", "ID")
for form, theirs in FORMATS:
    for name in ("to_char", "date_format"):
        cases(f"{name}({{a}}, '{form}')", "ts tz date" if name == "to_char" else "ts", f"to_char({{a}}::timestamp, '{theirs}')")
for zone in ("Europe/Berlin", "America/New_York", "+02:00", "UTC"):
    theirs = "-02:00" if zone == "+02:00" else zone
    cases(f"cast({{a}} at time zone '{zone}' as timestamp)", "tz", f"{{a}} at time zone '{theirs}'")
    cases(f"to_local_time({{a}} at time zone '{zone}')", "tz", f"{{a}} at time zone '{theirs}'")
    cases(f"date_part('hour', {{a}} at time zone '{zone}')", "tz", f"date_part('hour', {{a}} at time zone '{theirs}')")
    cases(f"date_trunc('day', {{a}} at time zone '{zone}')", "tz", f"date_trunc('day', {{a}} at time zone '{theirs}') at time zone '{theirs}'")
    cases(f"cast({{a}} at time zone '{zone}' as date)", "tz", f"({{a}} at time zone '{theirs}')::date")
