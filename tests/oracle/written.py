"""Reads what sinks wrote, and compares it with the rows that a model says."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from records import micros


class Differs(Exception):
    """Rows that are not what they must be."""


def rows(path, format, columns, named=True):
    """Rows of a file as tuples, in the order of `columns` (name to type), which is also that of the
    file's columns if they are `named`."""
    if format == "json":
        return _json(path, columns, named)
    if format in ("csv", "text"):
        return _lines(path, format, columns, named)
    return _arrow(path, format, columns, named)


def _named(found, columns, named):
    if list(found) != list(columns) if named else sorted(found) != sorted(columns):
        raise Differs(f"columns {list(found)}, expected {list(columns)}")


def _json(path, columns, named):
    made = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            row = json.loads(line, parse_float=Text, parse_int=Text)
            _named(row, columns, named)
            made.append(tuple(_typed(row[name], kind) for name, kind in columns.items()))
    return made


class Text(str):
    """A number as it is written."""


def _typed(value, kind):
    if value is None:
        return None
    if kind in ("float", "near"):
        if not isinstance(value, Text):
            raise Differs(f"{value!r} is no number")
        return _float(value)
    if kind in ("int", "guess"):
        if not isinstance(value, Text) or not value.lstrip("-").isdigit():
            raise Differs(f"{value!r} is no whole number")
        return int(value)
    if kind == "time":
        return micros(value)
    if isinstance(value, Text) or not isinstance(value, bool if kind == "bool" else str):
        raise Differs(f"{value!r} is not of the type {kind}")
    return value


def _digits(text):
    return text.lstrip("-").lower().split("e")[0].replace(".", "").strip("0")


def _float(text):
    """A float; its text has no more digits than it takes to tell it from all others."""
    value = float(text)
    if value == value and abs(value) != float("inf") and len(_digits(text)) > len(_digits(repr(value))):
        raise Differs(f"{text} has more digits than {value!r}")
    return value


def _lines(path, format, columns, named):
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    if format == "text":
        records = [[(it, False) for it in (line.split("\t") if len(columns) > 1 else [line])] for line in text.split("\n")[:-1]]
    else:
        records = _csv(text)
        names = [it for it, _ in records[0]]
        _named(names, columns, named)
        records = [[fields[names.index(it)] for it in columns] if len(fields) == len(names) else fields for fields in records[1:]]
    made = []
    for fields in records:
        if len(fields) != len(columns):
            raise Differs(f"{fields} has not {len(columns)} fields")
        made.append(tuple(_field(it, format, kind, len(columns) == 1) for it, kind in zip(fields, columns.values())))
    return made


def _field(field, format, kind, alone):
    text, in_quotes = field
    if format == "text" and kind == "text":
        # Nothing tells a missing text from an empty one there.
        return text or None
    if text == "" and not in_quotes or text == "NULL" and alone and not in_quotes and format == "csv":
        return None
    if kind in ("float", "near"):
        return _float(text)
    if kind == "bool":
        return {"true": True, "false": False}[text]
    return {"int": int, "guess": int, "time": micros, "text": str}[kind](text)


def _csv(text):
    """Fields with whether they are in quotes, which Python's reader does not say."""
    records, fields, i = [], [], 0
    while i < len(text):
        if text[i] == '"':
            field, i = "", i + 1
            while True:
                end = text.index('"', i)
                field, i = field + text[i:end], end + 1
                if text[i : i + 1] != '"':
                    break
                field, i = field + '"', i + 1
            fields.append((field, True))
        else:
            end = min(it for it in (text.find(",", i), text.find("\n", i), len(text)) if it >= 0)
            fields.append((text[i:end], False))
            i = end
        if text[i : i + 1] == "\n":
            records.append(fields)
            fields = []
        elif text[i : i + 1] == "," and text[i + 1 : i + 2] == "\n":
            fields.append(("", False))
            records.append(fields)
            fields, i = [], i + 1
        elif text[i : i + 1] != ",":
            raise Differs(f"{text[i : i + 20]!r} behind a field")
        i += 1
    return records


TYPES = {
    "int": pa.types.is_integer,
    "guess": pa.types.is_integer,
    "float": pa.types.is_float64,
    "near": pa.types.is_float64,
    "text": lambda it: pa.types.is_string(it) or pa.types.is_large_string(it) or it == pa.string_view(),
    "bool": pa.types.is_boolean,
    "time": pa.types.is_timestamp,
}


def _arrow(path, format, columns, named):
    table = pq.read_table(path) if format == "parquet" else pa.ipc.open_file(path).read_all()
    _named(table.column_names, columns, named)
    lists = []
    for name, kind in columns.items():
        column = table[name]
        if not TYPES[kind](column.type):
            raise Differs(f"the column {name} is {column.type}, expected {kind}")
        if kind == "time":
            if str(column.type) != "timestamp[us, tz=UTC]":
                column = column.cast(pa.timestamp("us", tz="UTC"))
            column = column.cast(pa.int64())
        lists.append(column.to_pylist())
    return list(zip(*lists))


def compare(found, expected, columns, format):
    """Fails unless the rows are the same in any order; says the first that differ."""
    kinds, alone = list(columns.values()), len(columns) == 1
    # What the format has no way to say.
    forms = {
        "json": lambda value, kind: None if kind == "float" and value is not None and value - value != 0 else value,
        "text": lambda value, kind: (value if alone else value.replace("\t", "\\t")) or None if kind == "text" and value is not None else value,
    }
    form = forms.get(format, lambda value, kind: value)
    expected = [tuple(form(value, kind) for value, kind in zip(row, kinds)) for row in expected]
    exact = [i for i, kind in enumerate(kinds) if kind not in ("near", "guess")]
    near = [i for i, kind in enumerate(kinds) if kind in ("near", "guess")]
    groups = {}
    for side, rows in enumerate((found, expected)):
        for row in rows:
            key = tuple(repr(row[i] if row[i] == row[i] else "NaN") for i in exact)
            groups.setdefault(key, ([], []))[side].append(row)
    for key, (ours, theirs) in sorted(groups.items(), key=lambda it: it[0]):
        if len(ours) != len(theirs):
            raise Differs(f"{len(ours)} rows, expected {len(theirs)}, of {dict(zip(columns, (ours or theirs)[0]))}")
        _paired(ours, theirs, lambda ours, theirs: all(_fits(ours[i], theirs[i], format) for i in near), columns)


def _paired(ours, theirs, fits, columns):
    """Finds a row of ours for each of theirs: rows that are only near can fit several."""
    pair, free = {}, dict.fromkeys(range(len(ours)))

    def place(row, tried):
        i = next((i for i in free if fits(ours[i], theirs[row])), None)
        if i is not None:
            del free[i]
            pair[i] = row
            return True
        # None is left: one that is taken may go to another.
        for i, one in enumerate(ours):
            if i not in tried and fits(one, theirs[row]):
                tried.add(i)
                if place(pair[i], tried):
                    pair[i] = row
                    return True
        return False

    for row in range(len(theirs)):
        if not place(row, set()):
            left = next(i for i in range(len(ours)) if i not in pair)
            raise Differs(f"{dict(zip(columns, ours[left]))}, expected {dict(zip(columns, theirs[row]))}")


def _fits(found, near, format):
    if near is None:
        return found is None
    if found is None:
        return format == "json" and not (abs(near.low) < float("inf") and abs(near.high) < float("inf"))
    return near.holds(found)
