"""The state of a stage, asked with SQL and read from Arrow files: in a checkpoint it is what the input
says, up to where the checkpoint's sources stood; of a job that runs, up to a cycle."""

import io
import json
import resource
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.ipc
import pytest

from mill import same
from served import FILL, finished, saved

STAGES = """
late: {from: flights, where: dep_delay > 15}
weekly: {from: late, key: [carrier], window: {tumbling: 7d}, aggregate: {n: count(*), mean: avg(dep_delay), far: max(distance), tails: count(distinct tailnum)}}
fortnight: {from: late, key: [carrier], window: {sliding: {size: 14d, every: 7d}}, aggregate: {n: count(*), far: max(distance), tails: count(distinct tailnum), mean: avg(dep_delay)}}
sliding: {from: late, key: [origin], window: {sliding: {size: 24h, every: 8h}}, aggregate: {n: count(*)}}
first: {from: flights, select: {id: id, carrier: carrier, dest: dest}, dedup: {on: [carrier, dest]}}
best: {from: flights, select: {id: id, carrier: carrier, distance: distance}, top: {k: 3, by: distance, per: [carrier]}}
named: {join: {left: first, table: airlines, on: [carrier], kind: left}}
pairs: {join: {left: late, right: weather, on: [origin], within: 30m}}
"""
SINKS = "weekly fortnight sliding best named pairs"
INPUTS = ("flights", "weather", "airlines")
HEAD = "cycle: {records: 500}\ncheckpoint: {every: 10ms}"
OF = ("job.yaml", "--data", "job")


@pytest.fixture
def killed(mill):
    """A job that was killed when it had a checkpoint with flights in it; gives that."""
    mill.write(STAGES, SINKS, INPUTS, HEAD)
    log = mill.folder / "job" / "checkpoints" / "0000000000000001.data"
    more = []
    for life in range(1, 20):
        wanted = (log.stat().st_size if log.exists() else 0) + life * 500_000
        ran = mill.begin("run", *OF, "--quiet", *more)
        while ran.poll() is None and not (log.exists() and log.stat().st_size > wanted):
            time.sleep(0.001)
        ran.kill()
        ran.wait()
        more = ["--resume"]
        # A batch that was torn is told of on standard error.
        found = mill.ask("checkpoint", "list", *OF)["checkpoints"]
        if found:
            made = mill.ask("checkpoint", "inspect", *OF, str(found[-1]["number"]))
            # The tables are read first: an early one has nothing else.
            if any(it["name"] == "flights" and it["position"] > 0 for it in made["sources"]):
                return made
    raise AssertionError("no checkpoint with flights was complete")


def ask(mill, stage, sql, *more):
    lines = mill.say("state", "query", "job.yaml", stage, sql, "--data", "job", "--format", "json", *more)
    return [json.loads(line) for line in lines.splitlines()]


def read_before(db, mill, checkpoint):
    """A view `seen` of the flights that the checkpoint's source had read."""
    [source] = [it for it in checkpoint["sources"] if it["name"] == "flights"]
    text = (mill.inputs / "flights.ndjson").read_bytes()[: source["position"]]
    count = text.count(b"\n")
    assert text.endswith(b"\n") and count > 0, "a checkpoint stands between two records"
    db.execute(f"create or replace view seen as select * from flights where id < {count}")
    return count


def watermark(checkpoint, stage):
    return next(it["watermark"] for it in checkpoint["stages"] if stage in it["name"].split("+"))


def test_states_are_what_the_input_says(killed, mill, db):
    read_before(db, mill, killed)
    week, now = 7 * 86_400_000, watermark(killed, "weekly")
    same(db, ask(mill, "weekly", "select carrier, window_start, window_end, n, mean, far, tails from state"), f"""
        select carrier, moment(floor_to(ts, {week})) as window_start,
               moment(floor_to(ts, {week}) + {week}) as window_end, count(*) as n, avg(dep_delay) as mean,
               max(distance) as far, count(distinct tailnum) as tails
        from seen where dep_delay > 15 and (floor_to(ts, {week}) + {week}) * 1000 > {now}
        group by carrier, floor_to(ts, {week})""")
    # It shares the weeks of the other.
    assert watermark(killed, "fortnight") == now
    same(db, ask(mill, "fortnight", "select carrier, window_end, n, far, tails from state"), f"""
        select carrier, moment(ends) as window_end, count(*) as n, max(distance) as far,
               count(distinct tailnum) as tails
        from (select *, unnest([floor_to(ts, {week}) + {week}, floor_to(ts, {week}) + {2 * week}]) as ends
              from seen where dep_delay > 15)
        where ends * 1000 > {now} group by carrier, ends""")
    # A day has late flights, whatever the hour of the checkpoint; a night has none.
    step, now = 8 * 3_600_000, watermark(killed, "sliding")
    same(db, ask(mill, "sliding", "select origin, window_end, n from state"), f"""
        select origin, moment(ends) as window_end, count(*) as n
        from (select origin, unnest(generate_series(floor_to(ts, {step}) + {step}, floor_to(ts, {step}) + {3 * step}, {step})) as ends
              from seen where dep_delay > 15)
        where ends * 1000 > {now} group by origin, ends""")
    same(db, ask(mill, "first", "select carrier, dest from state where __known_until is null"),
         "select distinct carrier, dest from seen")
    same(db, ask(mill, "best", "select __rank, carrier, id, distance from state"), """
        select * from (
            select row_number() over (partition by carrier order by distance desc, id) as __rank, carrier, id, distance
            from seen) where __rank <= 3""")
    same(db, ask(mill, "named", "select carrier, name from state"), "select carrier, name from airlines")
    # Late flights wait for weather of at most 30 minutes away, that may still come.
    waits = ask(mill, "pairs", "select id, origin, __matched from left_rows order by id")
    late = {it[0] for it in db.execute("select id from seen where dep_delay > 15").fetchall()}
    assert {it["id"] for it in waits} <= late
    [right] = ask(mill, "pairs", "select count(*) as n, count(distinct origin) as origins from right_rows")
    assert right["origins"] <= 3


def test_sql_computes_what_duckdb_computes(killed, mill, db):
    """The same query on the state, and on a copy of it in DuckDB."""
    mill.say("state", "export", "job.yaml", "best", "--data", "job", "--to", "best.arrow")
    with pa.ipc.open_file(mill.folder / "best.arrow") as file:
        state = file.read_all()
    copy = duckdb.connect()
    copy.register("state", state)
    for sql in (
        "select count(*) as n, sum(distance) as far, min(carrier) as least from state",
        "select carrier, avg(distance) as mean, count(distinct id) as ids from state group by carrier having count(*) > 2",
        "select id, distance * 2 + 1 as odd, upper(carrier) as name from state where distance between 500 and 2000 and carrier <> 'UA'",
        "select distinct __slice from state",
        "select carrier, id from state order by distance desc, id limit 5 offset 2",
        "select a.carrier, a.far from (select carrier, max(distance) as far from state group by carrier) a where a.far > 1000",
        "with top as (select * from state where __rank = 1) select count(*) filter (where distance > 700) as n from top",
        "select case when distance > 1000 then 'far' else 'near' end as how, count(*) as n from state group by 1",
    ):
        found = copy.execute(sql).fetchall()
        names = [it[0] for it in copy.description]
        rows = ask(mill, "best", sql)
        assert [list(row) for row in rows] == [names] * len(found)
        ours, theirs = ([tuple(row.values()) for row in rows], found)
        assert sorted(ours, key=str) == sorted([tuple(map(plain, row)) for row in theirs], key=str), sql
        if "order by" in sql:
            assert ours == theirs


def plain(value):
    return int(value) if not isinstance(value, (str, float, type(None), bool)) else value


def test_exported_files_open_everywhere(killed, mill, db):
    said = mill.say("state", "export", "job.yaml", "weekly", "--data", "job", "--to", "tables")
    number, cycle = killed["number"], killed["cycle"]
    assert f"rows of checkpoint {number}, as of cycle {cycle}" in said
    path = mill.folder / "tables" / "weekly.state.arrow"
    rows = ask(mill, "weekly", "select * from state")
    assert rows

    with pa.ipc.open_file(path) as file:
        table = file.read_all()
    meta = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert meta == {
        "tidemill.job": "oracle", "tidemill.stage": "weekly", "tidemill.table": "state",
        "tidemill.checkpoint": str(number), "tidemill.cycle": str(cycle), "tidemill.time_us": str(killed["time_us"]),
    }
    assert table.schema.field("window_start").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("__slice").type == pa.uint32()
    assert table.column_names == list(rows[0])
    total = sum(row["n"] for row in rows)
    key = sorted(zip(*(table.column(it).to_pylist() for it in ("carrier", "n", "tails", "__slice"))))
    assert key == sorted((row["carrier"], row["n"], row["tails"], row["__slice"]) for row in rows)

    frame = polars.read_ipc(path)
    assert (frame.columns, frame["n"].sum()) == (table.column_names, total)
    assert sorted(frame.select("carrier", "n").rows()) == sorted((row["carrier"], row["n"]) for row in rows)
    frame = pandas.read_feather(path)
    assert (list(frame.columns), int(frame["n"].sum()), len(frame)) == (table.column_names, total, len(rows))
    copy = duckdb.connect()
    copy.register("weekly", table)
    assert copy.execute("select sum(n), count(*) from weekly").fetchall() == [(total, len(rows))]

    # One file for each table; the same bytes each time.
    mill.say("state", "export", "job.yaml", "pairs", "--data", "job", "--to", "tables")
    names = sorted(it.name for it in (mill.folder / "tables").iterdir())
    assert names == ["pairs.left_rows.arrow", "pairs.right_rows.arrow", "weekly.state.arrow"]
    before = path.read_bytes()
    mill.say("state", "export", "job.yaml", "weekly", "--data", "job", "--to", "tables", "--checkpoint", str(number))
    assert path.read_bytes() == before
    said = mill.say("state", "export", "job.yaml", "pairs", "--data", "job", "--to", "one.arrow", code=2)
    assert "`left_rows`, `right_rows`" in said and not (mill.folder / "one.arrow").exists()
    mill.say("state", "export", "job.yaml", "pairs", "--data", "job", "--to", "one.arrow", "--table", "right_rows")
    said = mill.say("state", "export", "job.yaml", "pairs", "--data", "job", "--to", "two.arrow", "--table", "right_row", code=2)
    assert "did you mean `right_rows`?" in said
    # An answer can be an Arrow file too.
    line = [str(mill.binary), "state", "query", "job.yaml", "weekly", "select carrier, n from state", "--data", "job", "--format", "arrow"]
    answer = subprocess.run(line, cwd=mill.folder, capture_output=True, check=True, timeout=60).stdout
    assert pa.ipc.open_file(answer).read_all().num_rows == len(rows)


def test_what_there_is_and_what_is_wrong_is_said(killed, mill):
    tables = mill.ask("state", "tables", *OF)["tables"]
    assert {(it["stage"], it["table"]) for it in tables} == {
        ("weekly", "state"), ("fortnight", "state"), ("sliding", "state"), ("first", "state"), ("best", "state"), ("named", "state"),
        ("pairs", "left_rows"), ("pairs", "right_rows")}
    weekly = next(it for it in tables if it["stage"] == "weekly")
    assert weekly["columns"][1] == {"name": "window_start", "type": 'Timestamp(µs, "UTC")', "nullable": False}
    assert "__known_until" in mill.say("state", "tables", *OF)

    def refused(stage, sql, *more):
        return mill.say("state", "query", "job.yaml", stage, sql, "--data", "job", *more, code=2)

    assert "there is no stage `late` with a state; there are `fortnight`, `weekly`, `sliding`" in refused("late", "select 1 from state")
    assert "line 2, column 1: No field named kee" in refused("weekly", "select\nkee from state")
    assert "names no columns" in refused("weekly", "select from state")
    assert "line 1, column 32" in refused("weekly", "select n from state where n >> >")
    assert "there is no table `states`; there is `state`" in refused("weekly", "select 1 from states")
    assert "`left_rows`, `right_rows`" in refused("pairs", "select 1 from state")
    # As deep as can be: it is planned, or refused.
    nested = "select " + "abs(" * 45 + "+".join(["n"] * 49) + ")" * 45 + " as n from state limit 1"
    assert ask(mill, "weekly", nested)
    assert "more than 48 operators" in refused("weekly", "select " + "+".join(["n"] * 5000) + " from state")
    assert "brackets within brackets" in refused("weekly", "select " + "(" * 5000 + "n from state")
    assert "joins are not known here" in refused("weekly", "select a.n from state a join state b on a.n = b.n")
    assert "there is no checkpoint 77777" in refused("weekly", "select n from state", "--checkpoint", "77777")
    said = mill.say("state", "query", "job.yaml", "weekly", "select n from state", "--data", "job",
                    "--set", "stages.weekly.window={tumbling: 1d}", code=2)
    assert f"does something else now than when checkpoint {killed['number']} was made" in said
    # Which stages share windows is part of a checkpoint.
    said = mill.say("run", "job.yaml", "--data", "job", "--resume", "--quiet", "--set", "state={share_windows: false}", code=2)
    assert "the stages that share windows are others now: `weekly`, `fortnight` instead of `fortnight+weekly`" in said
    text = mill.say("state", "query", "job.yaml", "best", "select carrier, id from state limit 2", "--data", "job")
    assert f"2 rows, as of cycle {killed['cycle']} (checkpoint {killed['number']})" in text
    csv = mill.say("state", "query", "job.yaml", "best", "select count(*) as n from state", "--data", "job", "--format", "csv")
    assert csv.splitlines()[0] == "n" and int(csv.splitlines()[1]) > 0


# Counts of what came, by carrier; the stream may get more at any time.
COUNTS = """
name: counts
cycle: {{records: 100}}
{head}
sources:
  flights: {{stream: flights, format: json, schema: {{id: bigint, carrier: text}}}}
stages:
  seen: {{from: flights, dedup: {{on: [id]}}}}
  counts: {{from: seen, key: [carrier], window: {{global: {{}}}}, aggregate: {{n: count(*), last: max(id)}}}}
sinks:
  out: {{from: counts, blackhole: {{}}}}
"""


def asked(node, stage, sql, *more, code=0):
    said = node.command("state", "query", "counts", stage, sql, "--format", "json", *more, code=code)
    return [json.loads(line) for line in said.splitlines()] if code == 0 else said


def test_states_of_a_job_that_runs_on_a_node(node, inputs, db):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.submit(COUNTS.format(head="checkpoint: {every: 20ms}"))

    # While it reads: both stages, each as of one cycle, hold what belongs together.
    before = 0
    for _ in range(10):
        [it] = asked(node, "counts", "select coalesce(sum(n), 0) as n from state")
        assert before <= it["n"] <= count
        before = it["n"]
    node.wait("counts", lambda it: it["progress"]["sources"][0]["records"] == count)

    # It has all, and nothing more comes; an idle job answers too.
    sql = "select carrier, n, last from state"
    same(db, asked(node, "counts", sql), """
        select carrier, count(*) as n, max(id) as last from flights where distance > 300 group by carrier""")
    [it] = asked(node, "seen", "select count(*) as n, count(distinct id) as ids, max(id) - min(id) as span from state")
    assert it["n"] == it["ids"] == count

    # Once a checkpoint of the last cycle is complete, it shows the same.
    def cycle_of(*more):
        said = node.command("state", "query", "counts", "counts", "select n from state limit 1", *more)
        return said.split("as of cycle ")[1].split()[0]

    for _ in range(600):
        live, saved = cycle_of(), cycle_of("--checkpoint", "newest")
        if saved == live:
            break
    assert saved == live
    for stage, sql in (("counts", "select * from state"), ("seen", "select * from state order by id limit 1000")):
        assert asked(node, stage, sql) == asked(node, stage, sql, "--checkpoint", "newest")
    # One by its number is kept for that: each cycle, and a question makes one, may have the next one in its place.
    node.checkpoint("create", "counts", "--name", "here")
    [kept] = [it for it in json.loads(node.checkpoint("list", "counts", "--json"))["checkpoints"] if it["kept"]]
    assert asked(node, "counts", "select * from state", "--checkpoint", str(kept["number"])) == asked(node, "counts", "select * from state")

    # Files, live and from the checkpoint.
    said = node.command("state", "export", "counts", "seen", "--to", "live.arrow")
    assert said.startswith(f"live.arrow: {count} rows, as of cycle ")
    assert int(said.split()[-1]) >= int(live), "an idle source says so, in a cycle of its own"
    node.command("state", "export", "counts", "seen", "--to", "saved", "--checkpoint", "newest")
    live_ids, saved_ids = (sorted(polars.read_ipc(node.folder / path)["id"])
                           for path in ("live.arrow", "saved/seen.state.arrow"))
    assert live_ids == saved_ids and len(live_ids) == count
    assert "tidemill.checkpoint" not in str(pa.ipc.open_file(node.folder / "live.arrow").schema.metadata)

    # A job that does not run is looked at in its newest checkpoint, or in the one that is named.
    wanted = asked(node, "counts", "select * from state")
    node.job("cancel", "counts")
    node.wait("counts", lambda it: it["status"] == "cancelled")
    assert asked(node, "counts", "select * from state") == wanted
    assert "seen" in node.command("state", "tables", "counts")
    node.end(signal.SIGKILL)
    node.start()
    assert asked(node, "counts", "select * from state") == wanted


def test_a_job_without_checkpoints_is_looked_at_while_it_runs(node, inputs, db):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    node.submit(COUNTS.format(head=""))
    node.wait("counts", lambda it: it["progress"]["sources"][0]["lag_cycles"] == 0 and it["progress"]["sources"][0]["records"] > 0)
    [(count,)] = db.execute("select count(*) from flights where distance > 300").fetchall()
    node.wait("counts", lambda it: it["progress"]["sources"][0]["records"] == count)
    assert asked(node, "counts", "select sum(n) as n from state") == [{"n": count}]
    assert "makes no checkpoints" in asked(node, "counts", "select n from state", "--checkpoint", "newest", code=2)
    assert "there is no stage `none` with a state; there are `seen`, `counts`" in asked(node, "none", "select 1 from state", code=2)
    nested = "select " + "abs(" * 45 + "+".join(["n"] * 49) + ")" * 45 + " as n from state limit 1"
    assert asked(node, "counts", nested)[0]["n"] > 0
    assert "line 1, column 8: No field named m." in asked(node, "counts", "select m from state", code=2)
    assert "there is no job `other`" in node.command("state", "query", "other", "counts", "select n from state", code=2)
    assert "has no table `stat`; did you mean `state`?" in node.command(
        "state", "export", "counts", "seen", "--table", "stat", "--to", "x.arrow", code=2)
    assert not (node.folder / "x.arrow").exists()


def test_states_over_http(node, inputs):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    node.submit(COUNTS.format(head="checkpoint: {every: 1h}"))
    node.wait("counts", lambda it: it["progress"]["cycle_committed"] > 3)

    def http(path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{node.http}{path}", data, {"content-type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers["content-type"], answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["content-type"], error.read()

    status, _, body = http("/jobs/counts/state")
    assert status == 200 and {it["stage"] for it in json.loads(body)["tables"]} == {"seen", "counts"}
    sql = {"sql": "select carrier, n from state where n > 0 order by n desc limit 3"}
    status, kind, body = http("/jobs/counts/state/counts", sql)
    answer = json.loads(body)
    assert (status, kind) == (200, "application/json")
    assert [it["name"] for it in answer["columns"]] == ["carrier", "n"] and len(answer["rows"]) == 3
    assert answer["cycle"] > 3 and answer["checkpoint"] is None and answer["stage"] == "counts"
    assert answer["rows"] == sorted(answer["rows"], key=lambda it: -it["n"])
    arrow = "application/vnd.apache.arrow.file"
    status, kind, body = http("/jobs/counts/state/counts", {"sql": "select sum(n) as n from state"}, accept=arrow)
    assert (status, kind) == (200, arrow) and pa.ipc.open_file(body).read_all()["n"][0].as_py() > 0
    status, kind, body = http("/jobs/counts/state/seen/state")
    assert (status, kind) == (200, arrow) and pa.ipc.open_file(io.BytesIO(body)).read_all().num_rows > 0

    for path, body, status, what in (
        ("/jobs/none/state", None, 404, "there is no job `none`"),
        ("/jobs/counts/state/none", sql, 404, "there is no stage `none`"),
        ("/jobs/counts/state/counts", {"sql": "select"}, 400, "found: EOF"),
        ("/jobs/counts/state/counts", {"sql": "select 1", "more": 1}, 400, "unknown field `more`"),
        ("/jobs/counts/state/counts?checkpoint=x", sql, 400, "`newest`"),
        ("/jobs/counts/state/counts?checkpoint=7", sql, 404, "there is no checkpoint 7"),
        ("/jobs/counts/state/counts?checkpoint=newest", sql, 409, "no checkpoint yet"),
        ("/jobs/counts/state/counts?checkpiont=1", sql, 400, "did you mean `checkpoint`?"),
        ("/jobs/counts/state/counts/none", None, 404, "has no table `none`"),
    ):
        found, _, text = http(path, body)
        assert (found, what in json.loads(text)["error"]) == (status, True), (path, found, text)
    status, _, text = http("/jobs/counts/state/counts", {"sql": "select n,\n  nn from state"})
    assert (status, json.loads(text)["line"], json.loads(text)["column"]) == (400, 2, 3)


def post(node, stage, sql, accept):
    """Asks over HTTP as any client does: the media type of the answer, and its bytes."""
    request = urllib.request.Request(
        f"http://{node.http}/jobs/counts/state/{stage}", json.dumps({"sql": sql}).encode(),
        {"Content-Type": "application/json", "Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read()


def test_a_job_starts_and_is_listed_while_its_state_is_looked_at(node, inputs):
    """Whoever looks at a job that does not run has its checkpoints open; so has who lists them, or starts it."""
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    node.submit(COUNTS.format(head="checkpoint: {every: 20ms}"))
    node.wait("counts", lambda it: it["progress"]["sources"][0]["records"] > 0 and saved(it) > 0)
    looks, stopped = [], threading.Event()

    def look():
        while not stopped.is_set():
            looks.append(asked(node, "seen", "select id from state order by id desc limit 5", "--checkpoint", "newest"))

    with ThreadPoolExecutor() as pool:
        looking = [pool.submit(look) for _ in range(2)]
        try:
            for _ in range(4):
                node.job("cancel", "counts")
                node.wait("counts", lambda it: it["status"] == "cancelled")
                assert json.loads(node.checkpoint("list", "counts", "--json"))["checkpoints"]
                node.job("submit", "job.yaml", "--resume")
        finally:
            stopped.set()
        for it in looking:
            it.result()
    assert len(looks) > 4


def test_answers_come_as_clients_accept_them(node, inputs):
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    node.submit(COUNTS.format(head=""))
    node.wait("counts", lambda it: it["progress"]["sources"][0]["records"] > 0)
    arrow, sql = "application/vnd.apache.arrow.file", "select carrier, n from state order by carrier"
    for accept in (arrow, f"text/html, {arrow};q=0.9, */*;q=0.1"):
        kind, answer = post(node, "counts", sql, accept)
        assert kind == arrow and pa.ipc.open_file(answer).read_all().column_names == ["carrier", "n"]
    for accept in ("application/json", "*/*"):
        kind, answer = post(node, "counts", sql, accept)
        assert kind == "application/json" and json.loads(answer)["rows"][0].keys() == {"carrier", "n"}
    assert json.loads(post(node, "counts", "select n from state where n < 0", "*/*")[1])["rows"] == []


def test_a_file_that_was_not_written_is_no_success(node, inputs):
    """Files may not grow: what was there before is there still."""
    node.submit(FILL.format(inputs=inputs))
    node.wait("fill", finished)
    node.submit(COUNTS.format(head=""))
    node.wait("counts", lambda it: it["progress"]["sources"][0]["records"] > 0)
    target = node.folder / "out.arrow"
    target.write_text("of before")
    line = [node.binary, "state", "export", "counts", "counts", "--to", target.name, "--http", node.http]
    ran = subprocess.run(line, cwd=node.folder, capture_output=True, text=True, timeout=60, preexec_fn=no_file_grows)
    assert ran.returncode == 1 and "out.arrow.part: " in ran.stderr and "File too large" in ran.stderr and "rows" not in ran.stdout, ran
    assert target.read_text() == "of before"
    assert not (node.folder / "out.arrow.part").exists()


def no_file_grows():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
