"""What PostgreSQL and DuckDB make of an expression, for each row of a table of edges.

A result is a `Result`: a value as text (as a Python list, of lists), null, or none at all, with the reason."""

import re
from dataclasses import dataclass

import duckdb
import psycopg
from pyarrow import ipc

import edges


@dataclass(frozen=True)
class Result:
    """Of one row: `value`, which may be null, or `error`, the reason why there is none."""

    value: object = None
    error: str | None = None


@dataclass(frozen=True)
class Results:
    """Of all rows, by id; `kind` is the type in the engine's words. `refused`: the engine takes no such expression."""

    kind: str = ""
    rows: dict | None = None
    refused: str | None = None


ROW_BY_ROW = """
create function row_by_row(expression text, source text) returns table (row_id bigint, result text, reason text) as $$
begin
    for row_id in execute format('select id from %I', source) loop
        begin
            execute format('select (%s)::text from %I where id = %s', expression, source, row_id) into result;
            reason := null;
        exception when others then
            result := null;
            reason := sqlerrm;
        end;
        return next;
    end loop;
end $$ language plpgsql
"""

# Numbers in a type of fewer values than PostgreSQL has for them.
FITTING = """
create function fitting(value numeric, low numeric, high numeric) returns numeric as $$
begin
    if value < low or value > high then raise exception 'out of range'; end if;
    return value;
end $$ language plpgsql
"""


# A float of any size without what is behind its point, to its last digit.
WHOLE = """
create function whole(value double precision) returns numeric as $$
declare
    cut double precision := trunc(value);
begin
    if cut >= 9223372036854775808 then return (cut - 9223372036854775808)::bigint::numeric + 9223372036854775808; end if;
    return cut::bigint::numeric;
end $$ language plpgsql
"""

# The time so many microseconds after 1970 began.
MOMENT = """
create function moment(micros numeric) returns timestamp as $$
declare
    days numeric := floor(micros / 86400000000);
begin
    return '1970-01-01'::date + days::int + (micros - days * 86400000000)::bigint * interval '1 microsecond';
end $$ language plpgsql
"""


class Postgres:
    """A database of the server with the tables of edges."""

    def __init__(self, server, folder):
        self.connection = server.connect()
        self.ask("set timezone = 'UTC'")
        self.ask("set intervalstyle = 'iso_8601'")
        self.ask("set jit = off")
        self.ask(ROW_BY_ROW)
        self.ask(FITTING)
        self.ask(WHOLE)
        self.ask(MOMENT)
        self.ask("create extension fuzzystrmatch")
        for table in edges.PLACES:
            self.load(table)

    def ask(self, query, *values):
        cursor = self.connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else None

    def load(self, table):
        known = edges.names(table)
        columns = ", ".join(f"{name} {kind.postgres}" for name, kind, _ in known)
        self.ask(f"create table {table} (id bigint primary key, {columns})")
        values = [[edges.postgres_text(kind, it) for it in edges.column(table, kind, place)] for _, kind, place in known]
        with self.connection.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as copy:
            for number, row in enumerate(zip(*values)):
                copy.write_row([str(number), *row])
        self.ask(f"analyze {table}")

    def results(self, expression, table, lists=False):
        """Of each row of a table. There is no `try(…)`, which is null where there is no value."""
        tried = re.fullmatch(r"try\((.*)\)", expression)
        if tried:
            made = self.results(tried[1], table, lists)
            rows = {row: it if it.error is None else Result() for row, it in (made.rows or {}).items()}
            return Results(made.kind, rows, made.refused)
        try:
            kind = self.kind(expression, table)
        except psycopg.Error as error:
            return Results(refused=str(error).splitlines()[0])
        shown = f"({expression})" if lists else f"({expression})::text"
        try:
            rows = self.ask(f"select id, {shown} from {table}")
            return Results(kind, {row: Result(value) for row, value in rows})
        except psycopg.Error:
            pass
        if lists:
            return Results(refused="a list without a value")
        rows = self.ask("select * from row_by_row(%s, %s)", expression, table)
        return Results(kind, {row: Result(value, reason) for row, value, reason in rows})

    def kind(self, expression, table):
        """The type of an expression, which is planned and not evaluated."""
        cursor = self.connection.execute(f"select ({expression}) as it from {table} limit 0")
        column = cursor.description[0]
        return self.ask("select format_type(%s, null)", column.type_code)[0][0]


class DuckDb:
    """DuckDB with the tables of edges."""

    def __init__(self, folder):
        self.db = duckdb.connect()
        self.db.execute("set timezone = 'UTC'")
        for table in edges.PLACES:
            rows = ipc.open_file(str(folder / f"{table}.arrow")).read_all()
            self.db.register("arrow_rows", rows)
            self.db.execute(f"create table {table} as select * from arrow_rows")
            self.db.unregister("arrow_rows")

    def results(self, expression, table, lists=False):
        """Of each row of a table."""
        shown = f"({expression})" if lists else f"({expression})::varchar"
        try:
            kind = self.db.execute(f"select ({expression}) from {table} limit 0").description[0][1]
        except duckdb.Error as error:
            return Results(refused=str(error).splitlines()[0])
        try:
            rows = self.db.execute(f"select id, {shown} from {table}").fetchall()
            return Results(str(kind), {row: Result(value) for row, value in rows})
        except duckdb.Error:
            pass
        rows = self.db.execute(f"select id, try({shown}) from {table}").fetchall()
        return Results(str(kind), {row: Result(value) if value is not None else self.single(shown, table, row) for row, value in rows})

    def single(self, shown, table, row):
        """Of one row: null, or none."""
        try:
            return Result(self.db.execute(f"select {shown} from {table} where id = {row}").fetchall()[0][0])
        except duckdb.Error as error:
            return Result(error=str(error).splitlines()[0])
