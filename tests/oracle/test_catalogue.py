"""Every function, operator, cast and part of a time that a job may use, with values at the edges of their
types, beside PostgreSQL and, where that has no such thing, DuckDB.

Each difference stands in `differences.toml`, and what stands there differs. `catalogue.txt` is what the
product has, which a test in Rust keeps true; each of its lines needs a case here."""

import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import casts_catalogue
import differences
import edges
import lists_catalogue
import numbers_catalogue
import pairs_catalogue
import texts_catalogue
import times_catalogue
from comparison import same
from differences import Difference
from evaluations import Evaluation, evaluate
from references import DuckDb, Postgres, Result
from server import Server

FILES = {"numbers": numbers_catalogue, "times": times_catalogue, "texts": texts_catalogue, "casts": casts_catalogue, "lists": lists_catalogue, "pairs": pairs_catalogue}
CATALOGUE = Path(__file__).with_name("catalogue.txt")
SHOWN_MAX = 60


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edges")
    for table in edges.PLACES:
        edges.arrow(table, folder)
    return folder


@pytest.fixture(scope="module")
def found(binary, inputs, tmp_path_factory):
    """The differences of each file of cases."""
    cases = [(name, case) for name, file in FILES.items() for case in file.cases.all]
    columns = [Evaluation(case.sql(), case.table, case.lists) for _, case in cases]
    constants = [[it for it in (constant(case), null(case)) if it] for _, case in cases]
    evaluations = columns + [it for forms in constants for it, _ in forms]
    server = Server().start()
    try:
        with ThreadPoolExecutor(max_workers=1) as beside:
            ours = beside.submit(evaluate, binary, inputs, tmp_path_factory.mktemp("jobs"), evaluations)
            engines = {"postgres": Postgres(server, inputs), "duckdb": DuckDb(inputs)}
            theirs = [engines[case.engine].results(case.reference(), case.table, case.lists) for _, case in cases]
            ours.result()
    finally:
        server.remove()
    made = {name: [] for name in FILES}
    for (name, case), column, fixed, their in zip(cases, columns, constants, theirs):
        made[name] += compared(case, "columns", column, their, range(len(edges.places(case.table))), lambda row: row)
        for evaluation, rows in fixed:
            made[name] += compared(case, evaluation.sql, evaluation, their, rows, rows.get)
    return made


def constant(case):
    """The case over the table `one` with all arguments but the first as constants, or with that as one if
    there is no other; and for each row of its own table that this is about, the row of `one`."""
    # Another edge for each case, and the same one whatever other cases there are.
    number, fixed = zlib.crc32(case.name.encode()), {}
    for place, (argument, name) in enumerate(zip("abc", case.types)):
        if place == 0 and len(case.types) > 1:
            continue
        kind = edges.TYPES[name]
        known = edges.shown_in(case.table, kind)
        at = (number * 7 + place * 3) % len(known)
        fixed[argument] = at, edges.literal(kind, known[at])
    if not fixed or None in [it[1] for it in fixed.values()]:
        return None
    places = edges.places(case.table)
    rows = {}
    for row, of in enumerate(places):
        wanted = dict(zip("abc", of))
        if all(wanted[argument] == at for argument, (at, _) in fixed.items()):
            rows[row] = wanted["a"] if "a" not in fixed else 0
    return Evaluation(case.sql(**{argument: literal for argument, (_, literal) in fixed.items()}), "one", case.lists), rows


def null(case):
    """The case with null as its first argument, and its others as columns: whatever these are, what is null in
    the other engine has to be here."""
    if len(case.types) < 2:
        return None
    kind = edges.TYPES[case.types[0]]
    known, literal = edges.shown_in(case.table, kind), edges.literal(kind, None)
    if literal is None or None not in known:
        return None
    rows = {row: row for row, of in enumerate(edges.places(case.table)) if known[of[0] % len(known)] is None}
    return Evaluation(case.sql(a=literal), case.table, case.lists), rows


def compared(case, form, ours, theirs, rows, row_of):
    """The differences of one case, in one of its forms."""
    if theirs.refused or ours.refused:
        if theirs.refused and ours.refused:
            return []
        if form != "columns" and (theirs.refused or all(theirs.rows[row].error for row in rows)):
            # Constants without a value are refused with the job; types were looked at with columns.
            return []
        whole = [Result(error=f"refused: {it.refused}") if it.refused else Result("a value") for it in (ours, theirs)]
        return [Difference(case, form, "", *whole, ours.kind, theirs.kind)]
    made, seen = [], set()
    for row in rows:
        their, our = theirs.rows[row], ours.rows.get(row_of(row), Result(error="no row came out"))
        is_same = (our.error is None) == (their.error is None) and (
            our.error is not None or same(our.value, their.value, case.kind or theirs.kind, case.about, case.digits))
        shown = arguments(case, row)
        if not is_same and shown not in seen:
            seen.add(shown)
            made.append(Difference(case, form, shown, our, their, ours.kind, theirs.kind))
    return made


def arguments(case, row):
    """What stands in a row, for people."""
    places = edges.places(case.table)[row]
    values = [edges.shown_in(case.table, edges.TYPES[name]) for name in case.types]
    shown = [it[place % len(it)] for it, place in zip(values, places)]
    return "(" + ", ".join("null" if it is None else repr(it) if isinstance(it, str) else str(it) for it in shown) + ")"


@pytest.fixture(scope="module")
def entries():
    return differences.read()


@pytest.mark.parametrize("name", FILES)
def test_values_at_the_edges_are_right(found, entries, name):
    other = [it for it in found[name] if not any([entry.takes(it) for entry in entries])]
    shown = "\n".join(map(str, other[:SHOWN_MAX]))
    assert not other, f"{len(other)} differences that {differences.FILE.name} does not explain:\n{shown}"


def test_what_is_said_to_differ_differs(found, entries):
    for it in (it for all_of_it in found.values() for it in all_of_it):
        for entry in entries:
            entry.takes(it)
    idle = [f"{entry.title}: {pattern}" for entry in entries for pattern, times in entry.used.items() if not times]
    assert not idle, "no longer differ, and are to be taken out:\n" + "\n".join(idle)


def test_all_that_a_job_may_use_has_cases():
    said = " ".join(case.ours for file in FILES.values() for case in file.cases.all)
    known = {it for it in CATALOGUE.read_text(encoding="utf-8").splitlines() if it and not it.startswith("#")}
    missing = [it for it in sorted(known) if not has_case(it, said)]
    assert not missing, f"no case calls: {missing}"


def has_case(entry, said):
    """An entry is a kind and a name, as `function abs` or `part epoch`."""
    kind, name = entry.split(" ", 1)
    if kind == "part":
        return f"date_part('{name}'" in said
    if kind == "type":
        return f"as {name})" in said
    if kind == "operator":
        return f"}} {name} " in said
    return re.search(rf"\b{re.escape(name)}\(", said) is not None


def test_the_documents_show_the_differences():
    assert differences.PAGE.read_text(encoding="utf-8") == differences.page(), "run python3 tests/oracle/differences.py"
