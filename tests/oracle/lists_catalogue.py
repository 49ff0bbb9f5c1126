"""Lists, objects and maps."""

from cases import Cases

cases = Cases()
LISTS = "li lt"
DUCK = {"engine": "duckdb", "lists": True}


def named(names, arguments, types, theirs, **how):
    """The same function under each of its names."""
    for name in names.split():
        cases(f"{name}({arguments})", types, theirs, **how)


for sign in ("=", "<>", "<", ">="):
    cases(f"{{a}} {sign} {{b}}", "li|li")
    cases(f"{{a}} {sign} {{b}}", "lt|lt")
cases("{a} = {b}", "lf|lf")
cases("{a} || {b}", "li|li", lists=True)
cases("{a} @> {b}", "li|li")
cases("{a} <@ {b}", "li|li")
cases("{a}[1]", LISTS)
cases("{a}[{b}]", "li|i64", "{a}[{b}]", engine="duckdb")
cases("{a}[2:3]", LISTS, **DUCK)
cases("{a}[{b}:{c}]", "li|i64|i64", **DUCK)
cases("make_array({a}, {b})", "i64|i64", "array[{a}, {b}]", lists=True)
cases("make_list({a}, {b})", "text|text", "array[{a}, {b}]", lists=True)
cases("[{a}, {b}]", "i64|i64", "array[{a}, {b}]", lists=True)
named("array_length list_length", "{a}", LISTS, "array_length({a}, 1)")
named("array_length", "{a}, {b}", "li|i64", "array_length({a}, case when {b} between 1 and 6 then {b}::int when {b} is not null then 6 end)")
named("cardinality", "{a}", LISTS, "nullif(cardinality({a}), -1)")
named("array_ndims list_ndims", "{a}", LISTS, "array_ndims({a})")
named("array_dims list_dims", "{a}", "li", "case when array_length({a}, 1) is not null then array[array_length({a}, 1)] end", lists=True)
named("empty array_empty list_empty", "{a}", LISTS, "len({a}) = 0", engine="duckdb")
named("array_append list_append array_push_back list_push_back", "{a}, {b}", "li|i64", "array_append({a}, {b})", lists=True)
named("array_append", "{a}, {b}", "lt|text", "array_append({a}, {b})", lists=True)
named("array_prepend list_prepend array_push_front list_push_front", "{b}, {a}", "li|i64", "array_prepend({b}, {a})", lists=True)
named("array_cat array_concat list_concat list_cat", "{a}, {b}", "li|li", "array_cat({a}, {b})", lists=True)
named("array_contains list_contains array_has list_has", "{a}, {b}", "li|i64", "case when {b} is not null then array_position({a}, {b}) is not null and {a} is not null or case when {a} is null then null else false end end")
named("array_has", "{a}, {b}", "lt|text", "case when {b} is not null then array_position({a}, {b}) is not null and {a} is not null or case when {a} is null then null else false end end")
named("array_has", "{a}, {b}", "lf|f64", "case when {b} is not null then array_position({a}, {b}) is not null and {a} is not null or case when {a} is null then null else false end end")
named("array_has_all list_has_all", "{a}, {b}", "li|li", None, engine="duckdb")
named("array_has_any list_has_any arrays_overlap", "{a}, {b}", "li|li", "list_has_any({a}, {b})", engine="duckdb")
named("array_position list_position array_indexof list_indexof", "{a}, {b}", "li|i64", "array_position({a}, {b})")
named("array_positions list_positions", "{a}, {b}", "li|i64", "array_positions({a}, {b})", lists=True)
named("array_element array_extract list_element list_extract", "{a}, {b}", "li|i64", "{a}[{b}]", engine="duckdb")
named("array_pop_back list_pop_back", "{a}", LISTS, "{a}[:-2]", **DUCK)
named("array_pop_front list_pop_front", "{a}", LISTS, "{a}[2:]", **DUCK)
named("array_slice list_slice", "{a}, {b}, {c}", "li|i64|i64", "list_slice({a}, {b}, {c})", **DUCK)
named("array_slice", "{a}, {b}, {c}, 2", "li|i64|i64", "list_slice({a}, {b}, {c}, 2)", **DUCK)
named("array_any_value list_any_value", "{a}", LISTS, "list_any_value({a})", engine="duckdb")
# In any order: nulls last.
HAS_NULL = "case when len(list_filter({of}, lambda x: x is null)) > 0 then [null] else [] end"
for names, arguments, types, theirs in (
    ("array_distinct list_distinct", "{a}", LISTS, "list_distinct({a})"),
    ("array_union list_union", "{a}, {b}", "li|li", "list_distinct({a} || {b})"),
    ("array_intersect list_intersect", "{a}, {b}", "li|li", "case when {b} is not null then list_intersect({a}, {b}) end"),
    ("array_except list_except", "{a}, {b}", "li|li", "case when {b} is not null then list_filter(list_distinct({a}), lambda x: not list_contains({b}, x)) end"),
):
    of = {"array_distinct": "{a}", "array_union": "{a} || {b}"}.get(names.split()[0])
    null = f" || {HAS_NULL.replace('{of}', of)}" if of else ""
    for name in names.split():
        cases(f"array_sort({name}({arguments}), 'ASC', 'NULLS LAST')", types, f"list_sort({theirs}, 'ASC', 'NULLS LAST'){null}", **DUCK)
named("array_max list_max", "{a}", "li lt", "list_max({a})", engine="duckdb")
named("array_min", "{a}", "li lt", "list_min({a})", engine="duckdb")
named("array_max", "{a}", "lf", "list_max({a})", engine="duckdb")
named("array_sum list_sum", "{a}", "li", "list_sum({a})", engine="duckdb")
named("array_avg list_avg", "{a}", "li lf", "list_avg({a})", engine="duckdb", about=1e-14)
named("array_product list_product", "{a}", "li", "list_product({a})", engine="duckdb", about=1e-14)
named("array_sum", "{a}", "lf", "list_sum({a})", engine="duckdb", about=1e-14)
named("array_remove list_remove", "{a}, {b}", "li|i64", "case when {a} is null then null when array_position({a}, {b}) is null then {a} else {a}[:array_position({a}, {b}) - 1] || {a}[array_position({a}, {b}) + 1:] end", lists=True)
named("array_remove_all list_remove_all", "{a}, {b}", "li|i64", "array_remove({a}, {b})", lists=True)
named("array_remove_n list_remove_n", "{a}, {b}, 2", "li|i64", "array_remove({a}, {b})", lists=True)
named("array_replace list_replace", "{a}, {b}, 9", "li|i64", "case when {a} is null then null when array_position({a}, {b}) is null then {a} else {a}[:array_position({a}, {b}) - 1] || 9::bigint || {a}[array_position({a}, {b}) + 1:] end", lists=True)
named("array_replace_all list_replace_all", "{a}, {b}, 9", "li|i64", "array_replace({a}, {b}, 9)", lists=True)
named("array_replace_n list_replace_n", "{a}, {b}, 9, 2", "li|i64", "array_replace({a}, {b}, 9)", lists=True)
named("array_repeat list_repeat", "{a}, 3", "i64 text", "array_fill({a}, array[3])", lists=True)
named("array_repeat", "{a}, {b}", "text|i8", "case when {b} is not null then array_fill({a}, array[greatest({b}, 0)]) end", lists=True)
named("array_resize list_resize", "{a}, 2", LISTS, "list_resize({a}, 2)", **DUCK)
named("array_resize", "{a}, 4, {b}", "li|i64", "list_resize({a}, 4, {b})", **DUCK)
named("array_reverse list_reverse", "{a}", LISTS, "list_reverse({a})", **DUCK)
named("array_sort list_sort", "{a}", "li lt lf", "list_sort({a}, 'ASC', 'NULLS FIRST')", **DUCK)
named("array_sort", "{a}, 'DESC', 'NULLS LAST'", "li", "list_sort({a}, 'DESC', 'NULLS LAST')", **DUCK)
named("array_to_string list_to_string array_join list_join", "{a}, '-'", LISTS, "array_to_string({a}, '-')")
named("array_to_string", "{a}, {b}", "lt|text", "array_to_string({a}, {b})")
named("array_to_string", "{a}, ',', 'x'", LISTS, "array_to_string({a}, ',', 'x')")
named("string_to_array string_to_list", "{a}, ' '", "text", "string_to_array({a}, ' ')", lists=True)
named("string_to_array", "{a}, {b}", "text|text", "string_to_array({a}, {b})", lists=True)
named("string_to_array", "{a}, ' ', 'a'", "text", "string_to_array({a}, ' ', 'a')", lists=True)
named("array_compact list_compact", "{a}", LISTS, "list_filter({a}, lambda x: x is not null)", **DUCK)
named("flatten", "make_array({a}, {b})", "li|li", "flatten([{a}, {b}])", **DUCK)
named("arrays_zip list_zip", "{a}, {b}", "li|li", "list_transform(list_zip({a}, {b}), lambda x: {{'1': x[1], '2': x[2]}})", **DUCK)
named("range", "{a}", "i8", "range({a})", **DUCK)
named("range", "{a}, {b}, {c}", "i8|i8|i8", "range({a}, {b}, {c})", **DUCK)
named("generate_series", "{a}, {b}, {c}", "i8|i8|i8", "generate_series({a}, {b}, {c})", **DUCK)
named("generate_series", "{a}, {b}", "i8|i8", "generate_series({a}, {b})", **DUCK)
named("generate_series", "timestamp '1969-12-30', {a}, interval '400 years'", "ts", "generate_series(timestamp '1969-12-30', {a}, interval '400 years')", **DUCK)
for name, theirs in (("array_distance list_distance", "list_distance({a}, {b})"), ("cosine_distance", "list_cosine_distance({a}, {b})"), ("inner_product dot_product", "list_inner_product({a}, {b})")):
    named(name, "{a}, {b}", "lf|lf", theirs, engine="duckdb", about=1e-14)
named("array_add list_add", "{a}, {b}", "lf|lf", "case when len({a}) = len({b}) then list_transform(list_zip({a}, {b}), lambda x: x[1] + x[2]) when {a} is not null and {b} is not null then cast('none' || len({a}) as double[]) end", **DUCK)
named("array_subtract list_subtract", "{a}, {b}", "lf|lf", "case when len({a}) = len({b}) then list_transform(list_zip({a}, {b}), lambda x: x[1] - x[2]) when {a} is not null and {b} is not null then cast('none' || len({a}) as double[]) end", **DUCK)
named("array_scale list_scale", "{a}, 2.0", "lf", "list_transform({a}, lambda x: x * 2.0)", **DUCK)
named("array_normalize list_normalize", "{a}", "lf", "list_transform({a}, lambda x: x / sqrt(list_sum(list_transform({a}, lambda y: y * y))))", about=1e-14, **DUCK)
named("coalesce", "{a}, {b}", "li|li", "coalesce({a}, {b})", lists=True)
named("nullif", "{a}, {b}", "li|li", "nullif({a}, {b})", lists=True)
cases("{a} is null", "li lt lf")

named("named_struct", "'x', {a}", "i64", "{{'x': {a}}}", **DUCK)
named("struct row", "{a}, {b}", "i64|text", "{{'c0': {a}, 'c1': {b}}}", **DUCK)
cases("named_struct('x', {a}, 'y', {b})", "i64|text", "{{'x': {a}, 'y': {b}}}", **DUCK)
cases("named_struct('x', {a})['x']", "i64 ts d20_2", "{a}")
cases("get_field(named_struct('x', {a}), 'x')", "i64", "{a}")
cases("named_struct('x', {a}) = named_struct('x', {b})", "i64|i64", "row({a}) = row({b})")
named("map", "make_array('k'), make_array({a})", "i64", "map(['k'], [{a}])", **DUCK)
named("map_keys", "map(make_array('k'), make_array({a}))", "i64", "map_keys(map(['k'], [{a}]))", **DUCK)
named("map_values", "map(make_array('k'), make_array({a}))", "i64", "map_values(map(['k'], [{a}]))", **DUCK)
named("map_entries", "map(make_array('k'), make_array({a}))", "i64", "map_entries(map(['k'], [{a}]))", **DUCK)
named("map_extract element_at", "map(make_array('k'), make_array({a})), 'k'", "i64", "[{a}]", **DUCK)
named("map_extract", "map(make_array('k'), make_array({a})), 'z'", "i64", "[null]", **DUCK)
cases("arrow_typeof({a})", "i64", "case when true then 'Int64' end")
cases("arrow_cast({a}, 'Int32')", "i64", "{a}::int")
cases("arrow_try_cast({a}, 'Int32')", "i64", "try({a}::int)")
cases("cast_to_type({a}, cast(null as int))", "i64", "{a}::int")
cases("try_cast_to_type({a}, cast(null as int))", "i64", "try({a}::int)")
# What DataFusion says of types and of itself.
for name in ("arrow_field", "arrow_metadata"):
    cases(f"{name}({{a}}) is not null", "i64", "true")
cases("with_metadata({a}, 'a', 'b')", "i64", "{a}")
cases("version() is not null", theirs="true")
