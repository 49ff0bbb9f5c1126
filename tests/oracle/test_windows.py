"""Windows of every kind, late records, the largest rows of each window."""

import json

import pytest

from mill import DAY, HOUR, same

AGGREGATE = "{n: count(*), delay: avg(dep_delay), far: max(distance), opening: first(flight)}"
CALLS = "count(*) as n, avg(dep_delay) as delay, max(distance) as far, first(flight order by id) as opening"


def window(start, length, end=None):
    end = end or f"{start} + {length}"
    return f"moment({start}) as window_start, moment({end}) as window_end"


@pytest.mark.parametrize("keys", [[], ["carrier"], ["origin", "carrier"]], ids="-".join)
@pytest.mark.parametrize("size, length", [("1d", DAY), ("1h", HOUR), ("7d", 7 * DAY)])
def test_tumbling(mill, db, keys, size, length):
    key = f"key: [{', '.join(keys)}], " if keys else ""
    rows = mill.out(f"out: {{from: flights, {key}window: {{tumbling: {size}}}, aggregate: {AGGREGATE}}}")
    columns = "".join(f"{it}, " for it in keys)
    same(db, rows, f"select {columns}{window(f'floor_to(ts, {length})', length)}, {CALLS} from flights group by all")


@pytest.mark.parametrize("keys", [[], ["origin"], ["carrier"]], ids="-".join)
def test_sliding(mill, db, keys):
    key = f"key: [{', '.join(keys)}], " if keys else ""
    rows = mill.out(f"out: {{from: flights, {key}window: {{sliding: {{size: 6h, every: 1h}}}}, aggregate: {AGGREGATE}}}")
    columns = "".join(f"{it}, " for it in keys)
    same(db, rows, f"""
        with seen as (select *, floor_to(ts, {HOUR}) - i * {HOUR} as start from flights, range(6) as steps(i))
        select {columns}{window('start', 6 * HOUR)}, {CALLS} from seen group by {columns} start""")


@pytest.mark.parametrize("keys", [[], ["carrier"], ["origin", "dest"]], ids="-".join)
def test_session(mill, db, keys):
    key = f"key: [{', '.join(keys)}], " if keys else ""
    rows = mill.out(f"out: {{from: flights, {key}window: {{session: 2h}}, aggregate: {AGGREGATE}}}")
    columns = "".join(f"{it}, " for it in keys)
    by = f"partition by {', '.join(keys)} order by id" if keys else "order by id"
    same(db, rows, f"""
        with gaps as (select *, coalesce(ts - lag(ts) over ({by}) >= {2 * HOUR}, true) as begins from flights),
        islands as (select *, count(*) filter (begins) over ({by}) as island from gaps)
        select {columns}{window('min(ts)', 0, f'max(ts) + {2 * HOUR}')}, {CALLS}
        from islands group by {columns} island""")


@pytest.mark.parametrize("keys", [[], ["carrier"], ["tailnum"]], ids="-".join)
@pytest.mark.parametrize("size, every", [(5, 2), (3, 1), (4, 4), (2, 5)])
def test_count(mill, db, keys, size, every):
    key = f"key: [{', '.join(keys)}], " if keys else ""
    rows = mill.out(
        f"out: {{from: flights, {key}window: {{count: {{size: {size}, every: {every}}}}}, "
        "aggregate: {n: count(*), delay: avg(dep_delay), far: max(distance), opening: first(flight), closing: last(id)}}")
    columns = "".join(f"{it}, " for it in keys)
    by = f"partition by {', '.join(keys)} order by id" if keys else "order by id"
    last = f"over ({by} rows between {size - 1} preceding and current row)"
    same(db, rows, f"""
        with run as (select *, row_number() over ({by}) as place, count(*) {last} as n, avg(dep_delay) {last} as delay,
            max(distance) {last} as far, first_value(flight) {last} as opening from flights)
        select {columns}n, delay, far, opening, id as closing from run where place % {every} = 0""")


def test_windows_over_windows(mill, db):
    rows = mill.out(f"""
hours: {{from: flights, key: [origin], window: {{tumbling: 1h}}, aggregate: {{n: count(*)}}}}
out: {{from: hours, key: [origin], window: {{tumbling: 1d}}, aggregate: {{hours: count(*), most: max(n)}}}}""")
    same(db, rows, f"""
        with hours as (select origin, floor_to(ts, {HOUR}) as start, count(*) as n from flights group by all)
        select origin, {window(f'floor_to(start, {DAY})', DAY)}, count(*) as hours, max(n) as most from hours
        group by origin, floor_to(start, {DAY})""")


def shuffle(mill, db):
    """Writes the flights with times a few hours out of order; gives their source, and makes the
    table `shuffled` with each record's `place` in the file."""
    path = mill.folder / "shuffled.ndjson"
    db.execute(f"""create or replace table shuffled as
        select *, row_number() over (order by ts + hash(id) % {4 * HOUR}, id) - 1 as place from flights""")
    lines = (mill.inputs / "flights.ndjson").read_text(encoding="utf-8").splitlines(keepends=True)
    ids = db.execute("select id from shuffled order by place").fetchall()
    path.write_text("".join(lines[i] for (i,) in ids), encoding="utf-8")
    return "flights: {file: {path: shuffled.ndjson, format: json}, time: {field: ts, lateness: LATENESS}}"


def test_lateness_waits_for_records_out_of_order(mill, db):
    source = shuffle(mill, db).replace("LATENESS", "4h")
    results = mill.results("""
out: {from: flights, key: [carrier], window: {tumbling: 1h}, aggregate: {n: count(*), far: sum(distance)}, late: late}""",
        "out late", [source], "cycle: {records: 200}")
    same(db, results["out"], f"""select carrier, {window(f'floor_to(ts, {HOUR})', HOUR)}, count(*) as n,
        cast(sum(distance) as bigint) as far from flights group by carrier, floor_to(ts, {HOUR})""")
    assert results["late"] == []


def test_late_records_are_named_not_lost(mill, db):
    source = shuffle(mill, db).replace("LATENESS", "30m")
    stages = """
out: {from: flights, key: [carrier], window: {tumbling: 1h}, aggregate: {n: count(*), ids: sum(id)}, late: late}"""
    results = mill.results(stages, "out late", [source], "cycle: {records: 200}")
    late = [row["id"] for row in results["late"]]
    assert 100 < len(late) < 50_000, len(late)
    assert len(set(late)) == len(late), "a late record comes out once"
    # Records on time and late records together are all records.
    db.execute("create or replace table late (id bigint)")
    db.executemany("insert into late values (?)", [[it] for it in late])
    same(db, results["out"], f"""select carrier, {window(f'floor_to(ts, {HOUR})', HOUR)}, count(*) as n,
        cast(sum(id) as bigint) as ids from flights where id not in (from late) group by carrier, floor_to(ts, {HOUR})""")
    # Late is what came in a cycle after the one in which the watermark passed the window's end.
    expected = db.execute(f"""
        with cycles as (select place // 200 as cycle, max(ts) as top from shuffled group by cycle),
        marks as (select cycle, max(top) over (order by cycle rows between unbounded preceding and 1 preceding) as top
            from cycles)
        select id from shuffled join marks on place // 200 = cycle
        where floor_to(ts, {HOUR}) + {HOUR} <= top - {HOUR // 2}""").fetchall()
    assert sorted(late) == sorted(id for (id,) in expected)
    # A late record keeps its columns.
    one = results["late"][0]
    carrier = db.execute("select carrier from flights where id = ?", [one["id"]]).fetchone()[0]
    assert one["carrier"] == carrier


def test_stages_that_share_windows_write_what_each_writes_alone(mill, db):
    source = shuffle(mill, db).replace("LATENESS", "30m")
    stages = """
hourly: {from: flights, key: [carrier], window: {tumbling: 1h}, aggregate: {n: count(*), ids: sum(id)}, late: late_hourly}
shift: {from: flights, key: [carrier], window: {sliding: {size: 8h, every: 1h}}, aggregate: {far: max(distance), n: count(*)}, late: late_shift}
daily: {from: flights, key: [carrier], window: {sliding: {size: 1d, every: 1h}}, aggregate: {delay: avg(dep_delay), far: max(distance), n: count(*), ids: sum(id)}, late: late_daily}
other: {from: flights, key: [origin], window: {tumbling: 1h}, aggregate: {n: count(*)}, late: late_other}
best: {from: daily, top: {k: 2, by: ids, per: [window_start]}}"""
    sinks = "hourly shift daily other best late_hourly late_shift late_daily late_other"
    runs = {}
    for shares in ("true", "false"):
        head = f"cycle: {{records: 200}}\nstate: {{share_windows: {shares}}}"
        mill.write(stages, sinks, [source], head)
        said = mill.run().stdout
        # What no other stage reads is no late row.
        assert json.loads(said.splitlines()[-1])["late"] == sum(
            len(mill.rows(name)) for name in sinks.split() if name.startswith("late"))
        assert ("daily+hourly+shift" in said) == (shares == "true")
        runs[shares] = {name: sorted(mill.rows(name), key=lambda it: json.dumps(it)) for name in sinks.split()}
    shared, apart = runs["true"], runs["false"]
    late = {name: {it["id"] for it in shared[name]} for name in shared if name.startswith("late")}
    # No record is late by hours: those that are for one stage are counted by the others.
    assert late["late_hourly"] == late["late_other"]
    assert len(late["late_hourly"]) > 100 and not late["late_shift"] and not late["late_daily"]
    for name in sinks.split():
        rows = [shared[name], apart[name]]
        # Sums of floats may differ in their last digits: of one order of panes or another.
        means = [[it.pop("delay", None) or 0 for it in run] for run in rows]
        assert rows[0] == rows[1], name
        assert means[0] == pytest.approx(means[1], rel=1e-12)
    db.execute("create or replace table late (id bigint)")
    db.executemany("insert into late values (?)", [[it] for it in late["late_hourly"]])
    same(db, [{"carrier": it["carrier"], "n": it["n"], "ids": it["ids"]} for it in shared["hourly"]],
         f"""select carrier, count(*) as n, cast(sum(id) as bigint) as ids from flights
             where id not in (from late) group by carrier, floor_to(ts, {HOUR})""")


@pytest.mark.parametrize("order, sign", [("", "desc"), (", ascending: true", "asc")])
def test_top_of_each_window(mill, db, order, sign):
    rows = mill.out(f"""
daily: {{from: flights, key: [dest], window: {{tumbling: 1d}}, aggregate: {{n: count(*), ids: sum(id)}}}}
out: {{from: daily, top: {{k: 5, by: ids{order}, per: [window_start]}}}}""")
    same(db, rows, f"""
        with daily as (select dest, {window(f'floor_to(ts, {DAY})', DAY)}, count(*) as n,
            cast(sum(id) as bigint) as ids from flights group by dest, floor_to(ts, {DAY}))
        select * from daily qualify row_number() over (partition by window_start order by ids {sign}) <= 5""")


def test_top_with_nulls_and_ties(mill, db):
    rows = mill.out("out: {from: flights, select: {carrier: carrier, delay: arr_delay}, top: {k: 3000, by: delay, per: [carrier]}}")
    same(db, rows, """select carrier, arr_delay as delay from flights
        qualify row_number() over (partition by carrier order by arr_delay desc nulls last) <= 3000""")
    assert any(row["delay"] is None for row in rows)


def test_top_of_all_by_an_expression(mill, db):
    rows = mill.out("out: {from: flights, select: {id: id, far: distance}, top: {k: 10, by: far * 100000 - id}}")
    same(db, rows, "select id, distance as far from flights order by distance * 100000 - id desc limit 10")
