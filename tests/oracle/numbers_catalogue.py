"""Numbers: arithmetic, comparisons, and functions of them."""

from cases import DECIMAL, FLOAT, NUMBER, WHOLE, Cases

cases = Cases()
SIGNED = "i16 i32 i64"
NEAR = 4e-15

for sign in "+-*/%":
    cases.same_types(f"{{a}} {sign} {{b}}", SIGNED)
    cases.same_types(f"{{a}} {sign} {{b}}", "i8 u8 u16 u32 u64", f"{{a}} {'//' if sign == '/' else sign} {{b}}", engine="duckdb")
    cases(f"{{a}} {sign} {{b}}", "i32|i64")
    cases(f"{{a}} {sign} {{b}}", "i64 d20_2|f64", f"{{a}}::double precision {sign} {{b}}" if sign != "%" else "{a}::double {sign} {b}".replace("{sign}", sign), engine="duckdb" if sign == "%" else "postgres")
    cases.same_types(f"{{a}} {sign} {{b}}", FLOAT, engine="duckdb" if sign == "%" else "postgres")
    cases.same_types(f"{{a}} {sign} {{b}}", DECIMAL, digits=sign == "/")
    cases(f"{{a}} {sign} {{b}}", "d20_2|d4_1 i64 d38_0 d38_10 d38_38", digits=sign == "/")
    cases(f"{{a}} {sign} {{b}}", "i64|d4_1 d38_10", digits=sign == "/")
cases("-{a}", f"{SIGNED} {FLOAT} {DECIMAL}")
cases("-{a}", "i8", engine="duckdb")
cases("+{a}", NUMBER)
for sign, theirs in (("&", "&"), ("|", "|"), ("^", "#"), ("<<", "<<"), (">>", ">>")):
    cases.same_types(f"{{a}} {sign} {{b}}", "i64", f"{{a}} {theirs} {{b}}" if sign not in ("<<", ">>") else f"{{a}} {theirs} {{b}}::int")

PAIRS = "i64|i8 i32 u8 u64 f32 f64 d4_1 d20_2 d38_0 d38_38", "u64|i8 i64 f64 d20_2 d38_10", "f64|f32 d4_1 d20_2 d38_0 d38_10 d38_38", "d20_2|d4_1 d38_0 d38_10 d38_38 f64 f32 i64 u64", "i32|f32 d18_4"
for sign in ("=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"):
    cases.same_types(f"{{a}} {sign} {{b}}", NUMBER if sign in ("=", "<", "is distinct from") else "i64 u64 f64 d20_2")
    for pair in PAIRS if sign in ("=", "<", ">=", "is distinct from") else ():
        cases(f"{{a}} {sign} {{b}}", pair)
for pair in ("i64|f64|d20_2", "d20_2|i64|f64", "f64|i64|d4_1", "u64|i64|i64", "i64|u64|f64", "d38_10|d38_0|d4_1"):
    cases("{a} between {b} and {c}", pair)
    cases("{a} not between {b} and {c}", pair)
    cases("{a} in ({b}, {c})", pair)
    cases("{a} not in ({b}, {c})", pair)
    cases("greatest({a}, {b}, {c})", pair, about=NEAR)
    cases("least({a}, {b}, {c})", pair, about=NEAR)
    cases("coalesce({a}, {b}, {c})", pair, about=NEAR)
    cases("case when {a} > {b} then {b} else {c} end", pair, about=NEAR)
for name in ("greatest", "least", "coalesce", "nullif", "nvl", "ifnull"):
    theirs = f"coalesce({{a}}, {{b}})" if name in ("nvl", "ifnull") else None
    cases.same_types(f"{name}({{a}}, {{b}})", NUMBER, theirs)
    cases(f"{name}({{a}}, {{b}})", "i64|f64 d20_2 i32", theirs, about=NEAR)
    cases(f"{name}({{a}}, {{b}})", "d20_2|f64 i64 d38_10", theirs, about=NEAR)
cases("nvl2({a}, {b}, {c})", "i64|i64|i64", "case when {a} is not null then {b} else {c} end")
cases("case {a} when {b} then 1 when {c} then 2 else 3 end", "i64|f64|d20_2")
cases("case {a} when {b} then 1 when {c} then 2 else 3 end", "f64|f64|f64")
cases("{a} is null", NUMBER)
cases("{a} is not null", NUMBER)

cases("abs({a})", f"{SIGNED} {FLOAT} {DECIMAL}")
cases("abs({a})", "i8 u8 u16 u32 u64", engine="duckdb")
for name in ("floor", "ceil", "round", "trunc"):
    cases(f"{name}({{a}})", f"f64 {DECIMAL}")
    cases(f"{name}({{a}})", "f32", f"{name}({{a}})::real")
    cases(f"{name}({{a}})", WHOLE, f"{name}({{a}}::numeric)")
# The shortest digits of a float, as it is written; infinite ones and NaN are what they are.
ROUNDED = "case when {{a}} is null or {places} is null then null when abs({{a}}) < 'Infinity' then {name}({{a}}::text::numeric, {places})::double precision else {{a}} end"
for places in (-400, -39, -20, -3, -1, 0, 1, 2, 10, 38, 400):
    for name in ("round", "trunc"):
        cases(f"{name}({{a}}, {places})", DECIMAL)
        cases(f"{name}({{a}}, {places})", "i64", f"{name}({{a}}::numeric, {places})::bigint")
        cases(f"{name}({{a}}, {places})", "i32", f"{name}({{a}}::numeric, {places})::int")
        cases(f"{name}({{a}}, {places})", "u64", f"fitting({name}({{a}}, {places}), 0, 18446744073709551615)")
        cases(f"{name}({{a}}, {places})", "f64", ROUNDED.format(places=places, name=name), about=1e-15)
        cases(f"{name}({{a}}, {places})", "f32", "(" + ROUNDED.format(places=places, name=name) + ")::real", about=1e-6)
for name in ("round", "trunc"):
    cases(f"{name}({{a}}, {{b}})", "f64|i32", ROUNDED.format(places="{b}", name=name), about=1e-15)
    cases(f"{name}({{a}}, {{b}})", "d20_2|i32")
cases("signum({a})", "i64", "sign({a})")
cases("signum({a})", f"{FLOAT} {DECIMAL}", "case when {a} = 'NaN' then 'NaN' else sign({a}) end")
for name in "acos acosh asin asinh atan atanh cbrt cos cosh degrees exp ln log10 radians sin sinh sqrt tan tanh".split():
    # It takes NaN for what is out of range in some of them.
    cases(f"{name}({{a}})", "f64", about=NEAR)
    cases(f"{name}({{a}})", "f32", f"({name}({{a}}::double precision))::real", about=3e-6)
    cases(f"{name}({{a}})", "i64 d20_2", f"{name}({{a}}::double precision)", about=NEAR)
cases("log2({a})", "f64", "ln({a}) / ln(2::double precision)", about=NEAR)
cases("log({a})", "f64 i64 d20_2", "log10({a}::double precision)", about=NEAR)
cases("log({a}, {b})", "f64|f64", "ln({b}) / ln({a})", about=NEAR)
cases("log({a}, {b})", "i64|d20_2", "ln({b}::double precision) / ln({a}::double precision)", about=NEAR)
cases("cot({a})", "f64 i64", "cot({a}::double precision)", about=NEAR)
cases("atan2({a}, {b})", "f64|f64", about=NEAR)
cases("pi()", theirs="pi()")
for name in ("power", "pow"):
    cases(f"{name}({{a}}, {{b}})", "f64|f64", about=NEAR)
    cases(f"{name}({{a}}, {{b}})", "i64 d20_2|f64", f"power({{a}}::double precision, {{b}})", about=NEAR)
    cases(f"{name}({{a}}, {{b}})", "i64|i64", "power({a}::double precision, {b}::double precision)", about=NEAR)
    cases(f"{name}({{a}}, {{b}})", "d4_1 d20_2 d38_10|i64", "power({a}::double precision, {b}::double precision)", about=NEAR)
cases("factorial({a})", "i64 i32")
cases("gcd({a}, {b})", "i64|i64 i32")
cases("lcm({a}, {b})", "i64|i64 i32")
cases("isnan({a})", FLOAT, "{a} = 'NaN'")
cases("isnan({a})", "i64 d20_2", "case when {a} is not null then false end")
cases("iszero({a})", f"{FLOAT} i64 u64 d20_2 d38_38", "{a} = 0")
cases("nanvl({a}, {b})", "f64|f64 f32", "case when {a} = 'NaN' then {b} else {a} end")
cases("to_hex({a})", "i64 i32")
cases("to_hex({a})", "u64", engine="duckdb")
cases("chr({a})", "i64", "chr({a}::int)")
