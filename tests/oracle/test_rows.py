"""Rows one by one and rows of two inputs: expressions with nulls, lists, unions, dedup, joins."""

import pytest

from mill import DAY, HOUR, same


def test_expressions_with_nulls(mill, db):
    ours = {
        "id": "id",
        "waited": "coalesce(dep_delay, -1)",
        "made_up": "dep_delay - arr_delay",
        "is_late": "dep_delay > 15",
        "no_delay": "dep_delay is null",
        "grade": "case when dep_delay > 60 then 'late' when dep_delay <= 0 then 'early' else 'fair' end",
        "route": "origin || '-' || dest",
        "tail": "upper(substr(tailnum, 2, 3))",
        "not_ewr": "nullif(origin, 'EWR')",
        "speed": "cast(distance as double) / air_time * 60",
        "away": "abs(arr_delay)",
        "either": "dep_delay > 0 or arr_delay > 0",
        "both": "dep_delay > 0 and arr_delay > 0",
        "letters": "length(carrier)",
        "rest": "distance % 7",
    }
    select = ", ".join(f'{name}: "{sql}"' for name, sql in ours.items())
    rows = mill.out(f"out: {{from: flights, select: {{{select}}}}}")
    same(db, rows, "select " + ", ".join(f"{sql} as {name}" for name, sql in ours.items()) + " from flights")


def test_conditions_with_nulls(mill, db):
    conditions = [
        "not (dep_delay > 0)",
        "dep_delay <> arr_delay",
        "carrier in ('UA', 'AA') and dep_delay between 5 and 20",
        "tailnum like 'N1%' or tailnum is null",
        "dep_delay is distinct from arr_delay",
        "dep_time is null or arr_delay > 2 * dep_delay",
    ]
    stages = "\n".join(f'c{i}: {{from: flights, where: "{sql}", select: {{id: id}}}}' for i, sql in enumerate(conditions))
    results = mill.results(stages, " ".join(f"c{i}" for i in range(len(conditions))))
    for i, sql in enumerate(conditions):
        same(db, results[f"c{i}"], f"select id from flights where {sql}")


def test_where_comes_before_select_and_sees_the_old_columns(mill, db):
    rows = mill.out("out: {from: flights, where: distance > 2000, select: {id: id, distance: distance / 1000.0}}")
    same(db, rows, "select id, distance / cast(1000 as double) as distance from flights where distance > 2000")


def test_flat_map(mill, db):
    rows = mill.out("""
routes: {from: flights, select: {id: id, words: "carrier || ' ' || origin || ' ' || coalesce(tailnum, '')"}}
words: {from: routes, flat_map: {unnest: "string_to_array(words, ' ')", as: word}, where: "word <> 'UA'", select: {word: word, id: id}}
out: {from: words, key: [word], window: {global: {}}, aggregate: {n: count(*), first: min(id)}}""")
    same(db, rows, """
        with words as (select id, unnest(string_split(carrier || ' ' || origin || ' ' || coalesce(tailnum, ''), ' ')) as word from flights)
        select word, count(*) as n, min(id) as first from words where word <> 'UA' group by word""")


def test_union(mill, db):
    rows = mill.out("""
late: {from: flights, where: dep_delay > 60, select: {carrier: carrier, delay: dep_delay}}
slow: {from: flights, where: arr_delay > 60, select: {carrier: carrier, delay: arr_delay}}
out: {from: [late, slow], key: [carrier], window: {tumbling: 1d}, aggregate: {n: count(*), total: sum(delay)}}""")
    same(db, rows, f"""
        with both_ as (select ts, carrier, dep_delay as delay from flights where dep_delay > 60
            union all select ts, carrier, arr_delay from flights where arr_delay > 60)
        select carrier, moment(floor_to(ts, {DAY})) as window_start, moment(floor_to(ts, {DAY}) + {DAY}) as window_end,
            count(*) as n, cast(sum(delay) as bigint) as total from both_ group by carrier, floor_to(ts, {DAY})""")


@pytest.mark.parametrize("order", ["known, seen", "seen, known"])
def test_a_union_has_the_nulls_of_each_of_its_inputs(mill, db, order):
    # A literal is never null, and a column may be.
    results = mill.results(f"""
known: {{from: flights, select: {{id: id, tail: "'x'"}}}}
seen: {{from: flights, select: {{id: id, tail: tailnum}}}}
there: {{from: [{order}], where: tail is not null}}
absent: {{from: [{order}], where: tail is null}}
renamed: {{from: [{order}], select: {{name: tail}}}}
counts: {{from: [{order}], key: [tail], window: {{global: {{}}}}, aggregate: {{n: count(*), named: count(tail)}}}}
all: {{from: [{order}]}}""", "there absent renamed counts all")
    both = "(select id, 'x' as tail from flights union all select id, tailnum from flights)"
    same(db, results["there"], f"select * from {both} where tail is not null")
    same(db, results["absent"], f"select * from {both} where tail is null")
    same(db, results["renamed"], f"select tail as name from {both}")
    same(db, results["counts"], f"select tail, count(*) as n, count(tail) as named from {both} group by tail")
    same(db, results["all"], f"select * from {both}")


def test_dedup_for_ever(mill, db):
    rows = mill.out("out: {from: flights, select: {carrier: carrier, tailnum: tailnum, id: id}, dedup: {on: [carrier, tailnum]}}")
    same(db, rows, """select carrier, tailnum, id from flights
        qualify row_number() over (partition by carrier, tailnum order by id) = 1""")
    assert any(row["tailnum"] is None for row in rows), "nulls are equal to nulls here"


def test_dedup_forgets(mill, db):
    rows = mill.out("out: {from: flights, select: {carrier: carrier, origin: origin, id: id}, dedup: {on: [carrier, origin], within: 1d}}")
    same(db, rows, f"""
        with recursive passed(carrier, origin, id, ts) as (
            select carrier, origin, min(id), min(ts) from flights group by carrier, origin
            union all
            select p.carrier, p.origin, min(f.id), min(f.ts) from passed p join flights f
                on f.carrier = p.carrier and f.origin = p.origin and f.ts >= p.ts + {DAY}
            group by p.carrier, p.origin)
        select carrier, origin, id from passed""")


def test_stream_join(mill, db):
    stages = """
pairs: {{join: {{left: flights, right: weather, on: [origin], within: 1h, kind: {kind}}}}}
out: {{from: pairs, select: {{id: id, origin: origin, temp: temp, gust: wind_gust, seen: right_ts}}}}"""
    for kind in ("inner", "left"):
        rows = mill.out(stages.format(kind=kind), ["flights", "weather"])
        for row in rows:
            # A time is written as a moment or as it was read.
            row.pop("seen")
        same(db, rows, f"""select f.id, f.origin, w.temp, w.wind_gust as gust from flights f {kind} join weather w
            on f.origin = w.origin and w.ts between f.ts - {HOUR} and f.ts + {HOUR}""")


def test_stream_join_keeps_what_has_no_partner(mill, db):
    rows = mill.out("""
gusts: {from: weather, where: wind_gust > 35, select: {place: origin, gust: wind_gust}}
pairs: {join: {left: flights, right: gusts, on: [origin = place], within: 30m, kind: left}}
out: {from: pairs, select: {id: id, gust: gust}}""", ["flights", "weather"])
    same(db, rows, f"""select f.id, w.wind_gust as gust from flights f left join
        (select * from weather where wind_gust > 35) w
        on f.origin = w.origin and w.ts between f.ts - {HOUR // 2} and f.ts + {HOUR // 2}""")
    assert {row["gust"] is None for row in rows} == {True, False}


def test_table_join(mill, db):
    results = mill.results("""
named: {join: {left: flights, table: airlines, on: [carrier]}}
inner: {from: named, select: {id: id, carrier: carrier, airline: name}}
few: {from: airlines, where: "name like '%Air Lines%'"}
some: {join: {left: flights, table: few, on: [carrier], kind: left}}
left: {from: some, select: {id: id, airline: name}}""", "inner left", ["flights", "airlines"])
    same(db, results["inner"], "select id, carrier, name as airline from flights join airlines using (carrier)")
    same(db, results["left"], """select id, name as airline from flights left join
        (select * from airlines where name like '%Air Lines%') using (carrier)""")
    assert {row["airline"] is None for row in results["left"]} == {True, False}


def test_table_join_with_null_keys(mill, db):
    for kind in ("inner", "left"):
        rows = mill.out(f"""
known: {{join: {{left: flights, table: planes, on: [tailnum], kind: {kind}}}}}
out: {{from: known, select: {{id: id, maker: manufacturer, seats: seats}}}}""", ["flights", "planes"])
        same(db, rows, f"select id, manufacturer as maker, seats from flights {kind} join planes using (tailnum)")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_partitions_bring_each_row_once(mill, db, threads):
    stages = "\n".join(
        f"{it}: {{from: flights, where: distance > 900, select: {{id: id}}, partition: {it}}}"
        for it in ("one", "random", "local"))
    stages += """
key: {from: flights, where: distance > 900, select: {id: id}, key: [origin], partition: key}
all: {from: flights, where: distance > 2400, select: {id: id}, slices: 3, partition: all}"""
    results = mill.results(stages, "key one random local all", head=f"parallelism: {threads}")
    for it in ("key", "one", "random", "local"):
        same(db, results[it], "select id from flights where distance > 900")
    same(db, results["all"], "select id from flights, range(3) where distance > 2400")
