"""Each row once: a table is row by row that of an undisturbed run, whatever is killed or cut off when."""

import random
import shutil
import signal
import threading

import pytest

from mill import TIMED, Mill
from server import Database
from waiting import wait

ROWS = 6_000
HEAD = "cycle: {records: 15}"
"""400 cycles, of which no more than 64 are under way: the job is not over at once."""
KEPT = {"ledger": HEAD, "checkpoints": HEAD + "\ncheckpoint: {every: 20ms}"}
"""What a job keeps to go on from."""
STAGES = """
kept: {from: rows, where: id % 3 <> 1}
per_name: {from: kept, key: [name], window: {tumbling: 8s}, aggregate: {n: count(*), total: sum(amount)}}
"""
TABLES = ("out", "sums")


def write(mill, tables=TABLES, head=HEAD, url=None):
    """A job with rows as they come, and with results of windows."""
    out = mill.table(tables[0], url=url, of="kept")
    sums = mill.table(tables[1], url=url, of="per_name", sink="sums")
    mill.job(f"{out}\n{sums}", STAGES, head, TIMED)


@pytest.fixture(scope="module")
def undisturbed(shared, tmp_path_factory):
    """The rows of each table, of a run that nobody disturbs."""
    mill = Mill(tmp_path_factory.mktemp("plain"), Database(shared, "plain"))
    mill.numbered(ROWS)
    write(mill)
    mill.run("--data", "data")
    expected = found(mill)
    assert len(expected[0]) == ROWS * 2 // 3 and len(expected[1]) > 100
    return expected


@pytest.fixture
def expected(mill, undisturbed):
    """The same; `mill` has the input that they are of."""
    mill.numbered(ROWS)
    return undisturbed


def found(mill):
    return [mill.database.rows(it) for it in TABLES]


@pytest.mark.parametrize("kept, seed", list(zip(KEPT, (1, 2))))
def test_kills_do_not_show(mill, expected, kept, seed):
    write(mill, head=KEPT[kept])
    chance = random.Random(seed)
    cycles = sorted(chance.sample(range(1, 330), 8))
    kills = mill.run_killed(cycles, "--data", "data")
    assert found(mill) == expected, f"after {kills} kills"
    assert kills >= 4, "it was hardly killed"


def test_a_crash_of_the_server_does_not_show(mill, expected, own):
    """The job waits for the server, and goes on by itself."""
    mill.database = Database(own, "crashed")
    write(mill)
    process = mill.begin("--data", "data")
    for cycle in (30, 150, 300):
        assert mill.reaches(process, cycle), mill.text()
        own.crash()
        own.start()
    text = mill.end(process)
    assert found(mill) == expected
    assert "a job stalls" in text, text


def test_a_killed_job_and_a_crashed_server_do_not_show(mill, expected, own):
    mill.database = Database(own, "crashed")
    write(mill, head=KEPT["checkpoints"])
    process = mill.begin("--data", "data")
    for cycle in (50, 200):
        assert mill.reaches(process, cycle), mill.text()
        own.crash()
        process.kill()
        process.wait()
        own.start()
        process = mill.begin("--data", "data", "--resume")
    mill.end(process)
    assert found(mill) == expected


def test_connections_that_are_ended_do_not_show(mill, expected):
    write(mill)
    process = mill.begin("--data", "data")
    cuts, cycle = 0, 0
    while mill.reaches(process, cycle + 1):
        cuts += mill.database.cut_off()
        cycle = mill.database.cycle()
    mill.end(process)
    assert found(mill) == expected, f"after {cuts} cuts"
    assert cuts >= 3, "it was hardly cut off"


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("how", ["before", "after", "blind"])
def test_a_connection_that_breaks_in_a_commit_does_not_show(mill, expected, proxy, how, delivery):
    """Whether the commit came through is not a guess, however often that happens."""
    between = proxy(mill.database.server.port, ["pass", how, "pass", how, how, how] + ["pass", how] * 6)
    # Without a ledger each cycle is a commit of its own.
    head = HEAD if delivery == "exactly-once" else "cycle: {records: 100}"
    write(mill, head=f"{head}\ndelivery: {delivery}", url=mill.database.url_at(between.port))
    mill.run("--data", "data")
    assert found(mill) == expected
    assert len(between.cuts()) >= 3, between.done


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_at_once_does_not_show(mill, expected, proxy, seed):
    """Kills of the job, ended connections, and commits that are cut off on both sides."""
    chance = random.Random(seed)
    plan = chance.choices(["pass", "before", "after", "blind"], [10, 1, 2, 2], k=400)
    between = proxy(mill.database.server.port, plan)
    write(mill, head=KEPT["checkpoints" if seed % 2 else "ledger"], url=mill.database.url_at(between.port))
    over = threading.Event()

    def cut_off():
        while not over.wait(chance.uniform(0.05, 0.3)):
            mill.database.cut_off()

    cutter = threading.Thread(target=cut_off)
    cutter.start()
    try:
        mill.run_killed(sorted(chance.sample(range(1, 330), 4)), "--data", "data")
    finally:
        over.set()
        cutter.join()
    assert found(mill) == expected, between.done
    assert len(between.cuts()) >= 3, between.done


def test_a_job_that_was_thought_dead_writes_nothing_more(mill, expected):
    """Its place was taken by another process, which has a copy of its folder."""
    write(mill)
    old = mill.begin("--data", "data")
    assert mill.reaches(old, 30)
    paused(mill, old)
    said = mill.said.rename(mill.folder / "old.txt")
    shutil.copytree(mill.folder / "data", mill.folder / "copy")
    mill.run("--data", "copy", "--resume")
    assert found(mill) == expected
    old.send_signal(signal.SIGCONT)
    mill.said = said
    assert "another process has resumed this job" in mill.end(old, code=1)
    assert found(mill) == expected


def paused(mill, process):
    """Stops the process between two transactions, so that it holds no lock."""
    def is_between():
        process.send_signal(signal.SIGSTOP)
        wait(lambda: all(waits for _, waits in mill.database.backends()), 10, "quiet backends")
        if all(state == "idle" for state, _ in mill.database.backends()):
            return True
        process.send_signal(signal.SIGCONT)
        return False
    wait(is_between, 30, "a moment between transactions")


def test_another_job_of_the_name_takes_the_place(mill):
    # As many as keep the old job from its end while it is being paused.
    mill.numbered(10 * ROWS)
    write(mill)
    old = mill.begin("--data", "data")
    assert mill.reaches(old, 20)
    paused(mill, old)
    said = mill.said.rename(mill.folder / "old.txt")
    write(mill, ("other_out", "other_sums"))
    mill.run("--data", "other")
    old.send_signal(signal.SIGCONT)
    mill.said = said
    assert "has been started and writes in its place" in mill.end(old, code=1)
    write(mill)
    assert "has been started and writes in its place" in mill.run("--data", "data", "--resume", code=2)


def test_a_job_stops_while_its_database_is_away_and_goes_on_later(mill, expected, own):
    mill.database = Database(own, "away")
    write(mill)
    process = mill.begin("--data", "data")
    assert mill.reaches(process, 20)
    own.crash()
    wait(lambda: "a job stalls" in mill.text(), 20, "the warning")
    process.send_signal(signal.SIGINT)
    assert "could not be committed; resumed, it goes on" in mill.end(process, code=1, seconds=15)
    own.start()
    mill.run("--data", "data", "--resume")
    assert found(mill) == expected


def test_a_job_stops_while_its_database_says_nothing_and_goes_on_later(mill, expected, own):
    """Its processes hang: connections stay, and what is sent is not answered."""
    mill.database = Database(own, "silent")
    write(mill)
    process = mill.begin("--data", "data")
    assert mill.reaches(process, 20)
    own.pause()
    try:
        process.send_signal(signal.SIGINT)
        said = mill.end(process, code=1, seconds=15)
    finally:
        own.go_on()
    assert "does not answer" in said or "could not be committed" in said, said
    mill.run("--data", "data", "--resume")
    assert found(mill) == expected


def test_a_database_that_was_restored_is_filled_from_where_it_was(mill, expected):
    """The mark is in the backup with the rows, and no checkpoint is used that is ahead of it."""
    write(mill, head=KEPT["checkpoints"])
    process = mill.begin("--data", "data")
    assert mill.reaches(process, 20)
    process.kill()
    process.wait()
    wait(lambda: not mill.database.backends(), 10, "no backends")
    backup = f"{mill.database.name}_backup"
    mill.database.server.ask(f"CREATE DATABASE {backup} TEMPLATE {mill.database.name}")
    process = mill.begin("--data", "data", "--resume")
    assert mill.reaches(process, 220)
    process.kill()
    process.wait()
    wait(lambda: not mill.database.backends(), 10, "no backends")
    mill.database.server.ask(f"DROP DATABASE {mill.database.name}")
    mill.database.server.ask(f"ALTER DATABASE {backup} RENAME TO {mill.database.name}")
    mill.run("--data", "data", "--resume")
    assert found(mill) == expected


def test_a_new_run_adds_its_rows(mill):
    mill.numbered(500)
    mill.job(mill.table("out"), head=HEAD)
    mill.run("--data", "data")
    mill.run("--data", "data")
    mill.run("--data", "data", "--resume")
    rows = mill.database.rows("out")
    assert len(rows) == 1000 and rows[::2] == rows[1::2]


def test_a_table_that_is_gone_is_not_made_again(mill):
    mill.numbered(ROWS)
    write(mill)
    process = mill.begin("--data", "data")
    assert mill.reaches(process, 20)
    process.kill()
    process.wait()
    wait(lambda: not mill.database.backends(), 10, "no backends")
    mill.database.ask("DROP TABLE out")
    assert "there is no such table any more" in mill.run("--data", "data", "--resume", code=2)
    mill.database.ask("DELETE FROM tidemill_sinks")
    assert "start the job anew" in mill.run("--data", "data", "--resume", code=2)


def test_a_job_that_resumes_goes_on_with_its_tables_whatever_the_search_path(mill):
    def path(to):
        mill.database.ask(f"ALTER DATABASE {mill.database.name} SET search_path = {to}")

    mill.database.ask("CREATE SCHEMA one")
    mill.database.ask("CREATE SCHEMA two")
    mill.numbered(ROWS)
    mill.job(mill.table("out"), head=HEAD)
    path("one")
    process = mill.begin("--data", "data")
    assert mill.reaches(process, 20)
    process.kill()
    process.wait()
    wait(lambda: not mill.database.backends(), 10, "no backends")
    path("two, one")
    mill.run("--data", "data", "--resume")
    assert [row[0] for row in mill.database.rows("one.out")] == list(range(ROWS))
    assert mill.database.ask("SELECT to_regclass('two.out'), to_regclass('two.tidemill_sinks')") == [(None, None)]
    # Rows that stand in the second schema of the path have their marks there, and not in the first.
    mill.database.ask("DROP TABLE one.tidemill_sinks")
    mill.run("--data", "other")
    assert len(mill.database.rows("one.out")) == 2 * ROWS
    assert mill.database.ask("SELECT cycle > 0 FROM one.tidemill_sinks") == [(True,)]


def test_without_a_data_folder_rows_are_there_once_and_no_mark_is(mill):
    mill.numbered(1000)
    mill.job(mill.table("out"), head=HEAD)
    mill.run()
    assert [row[0] for row in mill.database.rows("out")] == list(range(1000))
    assert mill.database.ask("SELECT to_regclass('tidemill_sinks')") == [(None,)]


@pytest.mark.parametrize("key", ["", "key: [id]"])
@pytest.mark.parametrize("kind", ["numeric", "double precision", "integer", "text"])
def test_a_column_whose_type_changes_under_a_running_job_gets_no_other_values(mill, key, kind):
    mill.numbered(ROWS)
    if key:
        mill.database.ask("CREATE TABLE out (id bigint PRIMARY KEY, at bigint, name text, amount double precision, note text)")
    mill.job(mill.table("out", *filter(None, [key])), head=HEAD)
    process = mill.begin("--data", "data")
    assert mill.reaches(process, 20)
    mill.database.ask(f"ALTER TABLE out ALTER id TYPE {kind}")
    said = mill.end(process, code=1)
    assert f"its columns are `id {kind}," in said and "were `id bigint," in said, said
    if kind == "text":
        # It takes no numbers.
        assert "which does not take `bigint`" in mill.run("--data", "data", "--resume", code=2)
        mill.database.ask("ALTER TABLE out ALTER id TYPE bigint USING id::bigint")
    mill.run("--data", "data", "--resume")
    assert [int(row[0]) for row in mill.database.rows("out")] == list(range(ROWS))
