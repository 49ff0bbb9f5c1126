"""Rows with a key replace the row that has it."""

import random

import pytest

HEAD = "cycle: {records: 20}"
"""300 cycles, of which no more than 64 are under way."""


def keyed(mill, count=6_000, keys=300, seed=1):
    """Writes rows of which many have one key; gives the last of each."""
    chance = random.Random(seed)
    rows = [{"a": chance.randrange(keys), "B": chance.choice(["x", "y\"'\\"]), "n": n} for n in range(count)]
    mill.input(rows)
    return sorted({(it["a"], it["B"]): (it["a"], it["B"], it["n"]) for it in rows}.values())


def test_the_last_row_of_a_key_stays(mill):
    expected = keyed(mill)
    mill.job(mill.table("t", "key: [a, B]"), head=HEAD)
    mill.run("--data", "data")
    assert mill.database.rows("t") == expected
    mill.run("--data", "data")
    assert mill.database.rows("t") == expected, "written anew they are the same rows"
    keys = mill.database.ask("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass")
    assert keys == [('PRIMARY KEY (a, "B")',)]


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_table_with_an_index_and_more_columns_keeps_them(mill, delivery):
    expected = keyed(mill)
    mill.database.ask('CREATE TABLE t (more text DEFAULT \'kept\', n bigint, "B" text, a int)')
    mill.database.ask('CREATE UNIQUE INDEX ON t ("B", a) INCLUDE (n)')
    mill.database.ask("INSERT INTO t VALUES ('mine', -1, 'x', 0), ('mine', -1, 'other', 0)")
    mill.job(mill.table("t", "key: [a, B]"), head=f"{HEAD}\ndelivery: {delivery}")
    mill.run("--data", "data")
    found = sorted(mill.database.ask('SELECT a, "B", n FROM t WHERE n >= 0'))
    assert found == expected
    assert mill.database.ask("SELECT more, count(*) FROM t WHERE n >= 0 GROUP BY more ORDER BY more") == [("kept", len(expected) - 1), ("mine", 1)]
    assert mill.database.ask("SELECT n FROM t WHERE \"B\" = 'other'") == [(-1,)]


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
@pytest.mark.parametrize("key", ["key: [id]", ""])
def test_an_identity_takes_the_values_of_the_rows(mill, kind, key):
    mill.input({"id": 100 + i % 50 if key else 100 + i, "n": i} for i in range(1000))
    mill.database.ask(f"CREATE TABLE t (id bigint GENERATED {kind} AS IDENTITY PRIMARY KEY, n bigint)")
    mill.job(mill.table("t", *filter(None, [key])), head=HEAD)
    mill.run("--data", "data")
    expected = [(100 + i, 950 + i) for i in range(50)] if key else [(100 + i, i) for i in range(1000)]
    assert mill.database.rows("t") == expected


def test_a_row_of_nothing_but_its_key_is_there_once(mill):
    mill.input({"id": i % 50} for i in range(1000))
    mill.job(mill.table("t", "key: [id]"), head=HEAD)
    mill.run("--data", "data")
    assert mill.database.rows("t") == [(i,) for i in range(50)]


def test_kills_and_cuts_do_not_show(mill, proxy):
    expected = keyed(mill)
    between = proxy(mill.database.server.port, ["pass", "pass", "pass", "after", "pass", "blind", "before"] * 8)
    mill.job(mill.table("t", "key: [a, B]", url=mill.database.url_at(between.port)), head=HEAD + "\ncheckpoint: {every: 20ms}")
    # A trigger counts what is written, so that a row that came twice would show.
    mill.database.ask('CREATE TABLE t (a bigint, "B" text, n bigint, PRIMARY KEY (a, "B"))')
    mill.database.ask("CREATE TABLE seen (n bigint)")
    mill.database.ask("CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO seen VALUES (new.n); RETURN NULL; END'")
    mill.database.ask("CREATE TRIGGER see AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION see()")
    kills = mill.run_killed([30, 120, 200], "--data", "data")
    assert mill.database.rows("t") == expected, f"after {kills} kills"
    assert mill.database.ask("SELECT count(*) - count(DISTINCT n) FROM seen") == [(0,)]
    assert len(between.cuts()) >= 2 and kills >= 2


def test_a_key_that_is_null_is_refused(mill):
    mill.input([{"id": 1, "n": 1}, {"id": None, "n": 2}])
    mill.job(mill.table("t", "key: [id]"))
    text = mill.run("--data", "data", code=1)
    assert "row 2 of the cycle, column `id`: it is null" in text, text
