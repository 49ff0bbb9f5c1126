//! The grammar of generated expressions. Every part has the type that its place asks for, so that most
//! expressions compile.
//!
//! In a form, `#` and a letter is a part: `b` a condition, `i` a whole number, `f` a float, `m` a
//! decimal, `n` any of these three, `t` a text, `d` a date, `s` a time, `v` an interval, `l` a list of
//! numbers, `w` a list of texts, `o` an object, `x` the form's own type, `k` a small constant,
//! `p` a pattern. In the generated text, `$name;` is a column.

use super::rows::COLUMNS;

/// Forms that exist for every type; `#x` is that type.
const ANY: [&str; 9] = [
    "case when #b then #x else #x end",
    "case when #b then #x end",
    "coalesce(#x, #x)",
    "nvl(#x, #x)",
    "nvl2(#x, #x, #x)",
    "nullif(#x, #x)",
    "case #i when #i then #x when 1 then #x end",
    "case #t when 'a' then #x else #x end",
    "[#x, #x][#k]",
];

/// The types that comparisons take; a letter that occurs more than once is chosen more often.
const COMPARED: &str = "bifmnntdddssslwv";

const CONDITIONS: [&str; 12] = [
    "#y = #y",
    "#y <> #y",
    "#y < #y",
    "#y >= #y",
    "#y is distinct from #y",
    "#y is not distinct from #y",
    "#y between #y and #y",
    "#y not between #y and #y",
    "#y in (#y, #y)",
    "#y not in (#y, #y, #y, #y)",
    "#y is null",
    "case #y when #y then #b else #b end",
];

const OF_CONDITIONS: [&str; 27] = [
    "#b and #b",
    "#b or #b",
    "not #b",
    "#b is true",
    "#b is not false",
    "#b is unknown",
    "#b is not null",
    "#o is null",
    "#t like #p",
    "#t not like #p",
    "#t ilike #p",
    "#t like #t",
    "#t ~ #p",
    "#t !~* #p",
    "starts_with(#t, #t)",
    "contains(#t, 'a')",
    "array_has(#l, #i)",
    "array_has(#w, #t)",
    "array_has_any(#l, #l)",
    "array_has_all(#w, #w)",
    "#l @> #l",
    "empty(#l)",
    "#s > '2024-01-01T00:00:00.123456'",
    "#d between '0001-01-01' and '9999-12-31'",
    "#s in ('9999-12-31', '2024-01-01T00:00:00Z')",
    "isnan(#f)",
    "try_cast(#t as boolean)",
];

const INTEGERS: [&str; 34] = [
    "#i + #i",
    "#i - #i",
    "#i * #i",
    "#i / #i",
    "#i % #i",
    "#i & #i",
    "#i | #i",
    "#i ^ #i",
    "#i << #k",
    "#i >> #k",
    "-#i",
    "abs(#i)",
    "cast(#n as bigint)",
    "try_cast(#n as tinyint)",
    "try_cast(#t as bigint)",
    "cast(#t as int)",
    "cast(#b as int)",
    "length(#t)",
    "octet_length(#t)",
    "ascii(#t)",
    "strpos(#t, #t)",
    "levenshtein(#t, 'abc')",
    "date_part('year', #s)",
    "date_part('doy', #d)",
    "extract(second from #s)",
    "array_length(#l)",
    "cardinality(#w)",
    "array_position(#l, #i)",
    "#l[#k]",
    "#l[#i]",
    "#o['a']",
    "regexp_count(#t, #p)",
    "gcd(#i, #k)",
    "greatest(#i, #i)",
];

const FLOATS: [&str; 20] = [
    "#f + #f",
    "#f - #f",
    "#f * #f",
    "#f / #f",
    "#f % #f",
    "-#f",
    "abs(#f)",
    "cast(#n as double)",
    "try_cast(#t as double)",
    "round(#f)",
    "round(#f, #k)",
    "trunc(#f, #k)",
    "floor(#f)",
    "ceil(#f)",
    "sqrt(#n)",
    "power(#n, #n)",
    "ln(#f)",
    "nanvl(#f, #f)",
    "signum(#f)",
    "least(#f, #n)",
];

const DECIMALS: [&str; 11] = [
    "#m + #m",
    "#m - #m",
    "#m * #m",
    "#m / #m",
    "#m % #m",
    "-#m",
    "abs(#m)",
    "round(#m, #k)",
    "cast(#n as decimal(20,3))",
    "try_cast(#t as decimal(38,10))",
    "greatest(#m, #m)",
];

const TEXTS: [&str; 37] = [
    "#t || #t",
    "#t || #i",
    "concat(#t, #t)",
    "concat_ws(',', #t, #t)",
    "upper(#t)",
    "lower(#t)",
    "initcap(#t)",
    "reverse(#t)",
    "substr(#t, #i)",
    "substr(#t, #k, #k)",
    "left(#t, #i)",
    "right(#t, #k)",
    "lpad(#t, #i, #t)",
    "rpad(#t, #k, 'xy')",
    "repeat(#t, #k)",
    "replace(#t, #t, #t)",
    "trim(#t)",
    "btrim(#t, 'a')",
    "split_part(#t, ',', #i)",
    "translate(#t, 'ab', 'x')",
    "overlay(#t placing #t from #i)",
    "regexp_replace(#t, #p, 'z', 'g')",
    "regexp_replace(#t, #p, #t)",
    "cast(#n as text)",
    "cast(#d as text)",
    "cast(#s as text)",
    "cast(#b as text)",
    "to_char(#s, '%Y-%j')",
    "to_char(#d, #t)",
    "array_to_string(#w, #t)",
    "array_to_string(#l, ',', 'null')",
    "#w[#k]",
    "#w[#i]",
    "#o['b']",
    "chr(#i)",
    "to_hex(#i)",
    "greatest(#t, #t)",
];

const DATES: [&str; 8] = [
    "cast(#s as date)",
    "#d + #v",
    "#d - #v",
    "try_cast(#t as date)",
    "make_date(#i, #i, #i)",
    "make_date(2024, 1, #k)",
    "greatest(#d, #d)",
    "cast(#d as date)",
];

const TIMES: [&str; 17] = [
    "cast(#d as timestamp)",
    "#s + #v",
    "#s - #v",
    "date_trunc('month', #s)",
    "date_trunc('millisecond', #s)",
    "date_bin(interval '15 minutes', #s)",
    "#s at time zone 'Europe/Berlin'",
    "#d at time zone 'UTC'",
    "to_local_time(#s)",
    "coalesce(#s, #d)",
    "nullif(#s, #d)",
    "greatest(#s, #d)",
    "least(#s, '9999-12-31')",
    "to_timestamp_seconds(#i)",
    "to_timestamp_millis(#i)",
    "try_cast(#t as timestamp)",
    "case when #b then #d else #s end",
];

const LENGTHS: [&str; 5] =
    ["#s - #s", "interval '1 month'", "interval '-36 hours'", "interval '1 day'", "#s - #d"];

const LISTS: [&str; 24] = [
    "[#i, #i]",
    "array_append(#l, #i)",
    "array_prepend(#i, #l)",
    "array_concat(#l, #l)",
    "#l || #l",
    "array_sort(#l)",
    "array_distinct(#l)",
    "array_remove(#l, #i)",
    "array_remove_all(#l, #i)",
    "array_replace(#l, #i, #i)",
    "#l[#k:#k]",
    "array_slice(#l, #i, #i)",
    "array_reverse(#l)",
    "array_union(#l, #l)",
    "array_intersect(#l, #l)",
    "array_except(#l, #l)",
    "array_resize(#l, #k, #i)",
    "array_repeat(#i, #k)",
    "range(#k, #k)",
    "array_pop_back(#l)",
    "flatten([#l, #l])",
    "#w::bigint[]",
    "array_positions(#l, #i)",
    "#l::smallint[]",
];

const LISTS_OF_TEXTS: [&str; 10] = [
    "[#t, #t]",
    "string_to_array(#t, ',')",
    "array_append(#w, #t)",
    "array_concat(#w, #w)",
    "array_sort(#w, 'desc', 'nulls last')",
    "array_distinct(#w)",
    "array_remove(#w, #t)",
    "#l::text[]",
    "array_pop_front(#w)",
    "regexp_match(#t, #p)",
];

const OBJECTS: [&str; 2] = ["named_struct('a', #i, 'b', #t)", "{'a': #i, 'b': #t}"];

/// Constants of a type.
fn constants(kind: char) -> &'static [&'static str] {
    match kind {
        'b' => &["true", "false", "null"],
        'i' => &["0", "1", "-1", "2", "7", "127", "255", "2147483648", "9223372036854775807"],
        'f' => {
            &["0.0", "-0.0", "1.5", "-2.5", "1e308", "0.0 / 0.0", "1.0 / 0.0", "cast(3 as real)"]
        }
        'm' => &["cast(1.25 as decimal(5,2))", "cast('99999999999999999999' as decimal(30,1))"],
        't' => &["''", "'a'", "'A,b'", "'1'", "'é%_'", "'2024-02-29'", "null"],
        'd' => &["date '2024-02-29'", "date '9999-12-31'", "date '0001-01-01'"],
        's' => &[
            "timestamp '2024-02-29T12:34:56.789'",
            "timestamp '9999-12-31T23:59:59.999999'",
            "timestamp '0001-01-01'",
            "timestamp '1969-12-31T23:59:59.9999'",
        ],
        'v' => &["interval '1 day'", "interval '90 seconds'", "interval '2 months'"],
        'l' => &["[1, 2]", "[null, 1]", "cast(null as bigint[])"],
        'w' => &["['a', 'b']", "[null, '']"],
        'k' => &["0", "1", "-1", "2", "3", "-2"],
        'p' => &["'a'", "'%a_'", "'^a.*'", "''", "'b$'"],
        _ => &["{'a': 1, 'b': 'x'}"],
    }
}

fn forms(kind: char) -> &'static [&'static str] {
    match kind {
        'b' => &OF_CONDITIONS,
        'i' => &INTEGERS,
        'f' => &FLOATS,
        'm' => &DECIMALS,
        't' => &TEXTS,
        'd' => &DATES,
        's' => &TIMES,
        'v' => &LENGTHS,
        'l' => &LISTS,
        'w' => &LISTS_OF_TEXTS,
        _ => &OBJECTS,
    }
}

/// The fuzzer's bytes, one for each choice. After the last one, every choice is the first alternative.
pub(super) struct Choices<'a>(pub(super) &'a [u8]);

impl Choices<'_> {
    pub(super) fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.next()) % all.len()]
    }
}

/// An expression of a type, so deep at most.
pub(super) fn made(kind: char, depth: usize, choices: &mut Choices<'_>) -> String {
    let kind = match kind {
        'n' => choices.of(&['i', 'f', 'm', 'i']),
        other => other,
    };
    let choice = choices.next();
    if matches!(kind, 'k' | 'p') || depth == 0 || choice < 64 {
        let columns: Vec<&str> =
            COLUMNS.iter().filter(|it| it.kind == kind).map(|it| it.name).collect();
        return match columns.is_empty() || choice % 4 == 3 {
            true => choices.of(constants(kind)).to_owned(),
            false => format!("${};", choices.of(&columns)),
        };
    }
    let form = match (kind, choice % 4) {
        ('b', 0 | 1) => choices.of(&CONDITIONS),
        ('v', _) => choices.of(&LENGTHS),
        (_, 0) => choices.of(&ANY),
        _ => choices.of(forms(kind)),
    };
    filled(form, kind, depth - 1, choices)
}

/// A form with its parts.
pub(super) fn filled(form: &str, kind: char, depth: usize, choices: &mut Choices<'_>) -> String {
    let compared = choices.of(&COMPARED.chars().collect::<Vec<_>>());
    let (mut made_of, mut letters) = (String::new(), form.chars());
    while let Some(letter) = letters.next() {
        if letter != '#' {
            made_of.push(letter);
            continue;
        }
        let part = match letters.next() {
            Some('x') => made(kind, depth, choices),
            Some('y') => made(compared, depth, choices),
            Some(other) => made(other, depth, choices),
            None => break,
        };
        let is_plain =
            part.starts_with('$') && part.ends_with(';') && part.matches('$').count() == 1;
        let is_word = part.chars().all(|it| it.is_ascii_alphanumeric());
        let is_text =
            part.starts_with('\'') && part.ends_with('\'') && part.matches('\'').count() == 2;
        match is_plain || is_word || is_text {
            true => made_of.push_str(&part),
            false => made_of.extend(["(", &part, ")"]),
        }
    }
    made_of
}

/// Each form, with its type.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (char, &'static str)> {
    let of = |kind| forms(kind).iter().map(move |it| (kind, *it));
    let each = "bifmtdsvlwo".chars().flat_map(of);
    each.chain(CONDITIONS.map(|it| ('b', it))).chain(ANY.map(|it| ('i', it)))
}
