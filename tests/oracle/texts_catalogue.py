"""Texts: functions, patterns, comparisons."""

from cases import Cases

cases = Cases()
# The server counts letters with 32 bits.
INT = "(case when {b} > 2147483647 then 2147483647 when {b} < -2147483647 then -2147483647 else {b} end)::int"

for name in ("ascii", "bit_length", "btrim", "trim", "character_length", "char_length", "length", "ltrim", "rtrim", "octet_length", "reverse"):
    cases(f"{name}({{a}})", "text")
# The tests' server knows letters beyond ASCII by its library only.
LETTERS = ' collate "und-x-icu"'
for name in ("lower", "upper", "initcap"):
    cases(f"{name}({{a}})", "text", f"{name}({{a}}{LETTERS})")
for name in ("btrim", "ltrim", "rtrim"):
    cases(f"{name}({{a}}, {{b}})", "text|text")
cases("trim(both 'a' from {a})", "text")
cases("trim(leading ' ' from {a})", "text")
cases("{a} || {b}", "text|text")
cases("concat({a}, {b})", "text|text")
cases("concat({a}, {b}, 'x')", "text|i64")
cases("concat_ws('-', {a}, {b})", "text|text")
cases("concat_ws({a}, {b}, {c})", "text|text|text")
cases("contains({a}, {b})", "text|text", "strpos({a}, {b}) > 0")
cases("starts_with({a}, {b})", "text|text")
cases("ends_with({a}, {b})", "text|text", "right({a}, length({b})) = {b}")
for name in ("strpos", "instr"):
    cases(f"{name}({{a}}, {{b}})", "text|text", "strpos({a}, {b})")
cases("position({b} in {a})", "text|text")
cases("levenshtein({a}, {b})", "text|text", "case when length({a}) < 256 and length({b}) < 256 then levenshtein({a}, {b}) when {b} is not null and {a} is not null then greatest(length({a}), length({b})) end")
for name in ("left", "right"):
    cases(f"{name}({{a}}, {{b}})", "text|i64", f"{name}({{a}}, {INT})")
    cases(f"{name}({{a}}, {{b}})", "text|i32")
for name in ("lpad", "rpad"):
    cases(f"{name}({{a}}, {{b}})", "text|i32", f"case when ({{b}} <= 1000000) is not false or {{a}} is null then {name}({{a}}, {{b}}) else fitting(1, 2, 3)::text end")
    cases(f"{name}({{a}}, {{b}}, {{c}})", "text|i32|text", f"case when {{a}} is null or {{c}} is null then null when ({{b}} <= 1000000) is not false then {name}({{a}}, {{b}}, {{c}}) else fitting(1, 2, 3)::text end")
for name in ("substr", "substring"):
    cases(f"{name}({{a}}, {{b}})", "text|i32", "substr({a}, {b})")
    cases(f"{name}({{a}}, {{b}})", "text|i64", "substr({a}, " + INT + ")")
    cases(f"{name}({{a}}, {{b}}, {{c}})", "text|i32|i32", "substr({a}, {b}, {c})")
cases("substr({a}, {b}, {c})", "text|i64|i64", "case when {a} is null or {b} is null then null when {c} < 0 then fitting(1, 2, 3)::text else substr({a}, " + INT + ", (case when {c} > 2147483647 then 2147483647 else {c} end)::int) end")
cases("substring({a} from 2 for 3)", "text")
cases("repeat({a}, {b})", "text|i32", "case when {a} = '' and {b} is not null then '' when length({a})::bigint * {b} > 1048576 then fitting(1, 2, 3)::text else repeat({a}, {b}) end")
cases("replace({a}, {b}, {c})", "text|text|text")
cases("replace({a}, 'a', '')", "text")
cases("translate({a}, {b}, {c})", "text|text|text")
cases("split_part({a}, {b}, {c})", "text|text|i32")
cases("split_part({a}, ' ', {b})", "text|i32")
for name in ("substr_index", "substring_index"):
    cases(f"{name}({{a}}, ' ', {{b}})", "text|i64", "case when {b} > 0 then array_to_string((string_to_array({a}, ' '))[1:least({b}, 1000000)::int], ' ') when {b} < 0 then array_to_string((string_to_array({a}, ' '))[greatest(array_length(string_to_array({a}, ' '), 1) + 1 + greatest({b}, -1000000)::int, 1):], ' ') when {b} = 0 and {a} is not null then '' end")
cases("find_in_set({a}, {b})", "text|text", "case when {a} is null or {b} is null then null when {b} = '' then ({a} = '')::int else coalesce(array_position(string_to_array({b}, ','), {a}), 0) end")
cases("overlay({a} placing {b} from {c})", "text|text|i32")
cases("overlay({a} placing 'x' from 2 for 1)", "text")
cases("to_hex({a})", "i64")
cases("chr({a})", "i64", "chr({a}::int)")

for sign in ("=", "<>", "<", "<=", ">", ">=", "is distinct from"):
    cases(f"{{a}} {sign} {{b}}", "text|text")
cases("{a} between {b} and {c}", "text|text|text")
cases("{a} in ({b}, {c})", "text|text|text")
cases("case {a} when {b} then 1 when {c} then 2 end", "text|text|text")
for name in ("greatest", "least", "coalesce", "nullif", "nvl", "ifnull"):
    cases(f"{name}({{a}}, {{b}})", "text|text", "coalesce({a}, {b})" if name in ("nvl", "ifnull") else None)
cases("{a} is null", "text bool")
for pattern in ("a%", "%b", "%", "_", "", "a_c", "%ä%", "日_語", r"a\_c", "%%", "\\%"):
    for word in ("like", "not like", "ilike", "not ilike"):
        cases(f"{{a}} {word} '{pattern}'", "text", f"{{a}} {word} '{pattern}'{LETTERS}")
cases("{a} like 'a!_c' escape '!'", "text")
cases("{a} like {b}", "text|text")
cases("{a} ilike {b}", "text|text")
for pattern in ("a", "^a", "b$", "[a-c]+", "^$", ".", "ä", "(a)(b)?", "a|b", "a{2,}", r"\d+"):
    written = pattern.replace("{2,}", "{{2,}}")
    for sign in ("~", "~*", "!~", "!~*"):
        cases(f"{{a}} {sign} '{written}'", "text", f"{{a}} {sign} '{written}'{LETTERS}")
    cases(f"regexp_like({{a}}, '{written}')", "text", f"{{a}} ~ '{written}'")
    cases(f"regexp_count({{a}}, '{written}')", "text", f"regexp_count({{a}}, '{written}')")
    cases(f"regexp_instr({{a}}, '{written}')", "text", f"regexp_instr({{a}}, '{written}')")
    cases(f"regexp_replace({{a}}, '{written}', 'X')", "text")
    cases(f"regexp_replace({{a}}, '{written}', 'X', 'g')", "text")
    cases(f"regexp_match({{a}}, '{written}')", "text", lists=True)
cases("regexp_like({a}, 'A', 'i')", "text", "{a} ~* 'A'")
cases(r"regexp_replace({a}, '(a)(b)', '\2\1')", "text")

for sign in ("and", "or"):
    cases(f"{{a}} {sign} {{b}}", "bool|bool")
for word in ("true", "false", "unknown", "not true", "not false", "not unknown"):
    cases(f"{{a}} is {word}", "bool")
cases("not {a}", "bool")
for sign in ("=", "<>", "<", ">=", "is distinct from"):
    cases(f"{{a}} {sign} {{b}}", "bool|bool")
for name in ("greatest", "least", "coalesce", "nullif"):
    cases(f"{name}({{a}}, {{b}})", "bool|bool")
cases("case when {a} then 1 else 2 end", "bool")
for sign in ("=", "<", "is distinct from"):
    cases(f"{{a}} {sign} {{b}}", "bin|bin")
cases("octet_length({a})", "bin")
cases("encode(coalesce({a}, {b}), 'hex')", "bin|bin")
for form in ("hex", "base64"):
    cases(f"encode({{a}}, '{form}')", "text", f"replace(rtrim(encode(convert_to({{a}}, 'UTF8'), '{form}'), '='), E'\\n', '')")
    cases(f"encode({{a}}, '{form}')", "bin", f"rtrim(encode({{a}}, '{form}'), '=')")
    cases(f"cast(decode(encode({{a}}, '{form}'), '{form}') as text)", "text", "{a}")
