"""Medians of the runs of one session, as a table in Markdown."""

from collections import defaultdict
from statistics import median

from cases import BROKERS, OURS

FIELDS = ("records_per_s", "broker_cpu_s_per_gb", "client_cpu_s_per_gb", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "rss_mb")
HEAD = ("| load | partitions | acknowledged | broker | runs | records /s | broker CPU s/GB | p50 ms | p99 ms | RSS MB | ours / Kafka |",
        "| --- | --: | --- | --- | --: | --: | --: | --: | --: | --: | --- |")


def summarise(lines, session):
    """Medians by case, then by broker. Where no run was quiet, those that were not are taken, and `quiet` is false."""
    runs = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line["session"] == session:
            runs[line["case"]][line["broker"]].append(line)
    return {case: {it: _medians(found[it]) for it in BROKERS if it in found} for case, found in runs.items()}


def _medians(lines):
    worked = [it for it in lines if "failed" not in it]
    quiet = [it for it in worked if it["quiet"]]
    used = quiet or worked
    medians = {"runs": len(used), "quiet": bool(quiet), **{name: lines[0][name] for name in ("load", "partitions", "durability")}}
    for field in FIELDS:
        values = [it[field] for it in used if it.get(field) is not None]
        if values:
            medians[field] = round(median(values), 3)
    return medians


def _ratio(found, field):
    ours, theirs = (found.get(it, {}).get(field) for it in (OURS, "kafka"))
    return ours / theirs if ours is not None and theirs else None


def markdown(summary, session, described):
    text = [
        "# Tidemill's broker and Apache Kafka",
        "",
        f"Session {session}. {described}",
        "",
        "Medians of rounds in which the brokers took turns on one machine, one at a time, each started anew for its round.",
        "`ours / Kafka` is of the broker's CPU time per GB of payload, or of p50 and p99; less is better.",
        "Acknowledged `os`: written to the operating system; `disk`: on the disk (`--fsync always`; Kafka with `log.flush.interval.messages=1`).",
        "`~`: others used the machine in every run, so the figures are bounds.",
        "",
        *HEAD,
    ]
    for found in summary.values():
        for broker, it in found.items():
            ratios = [_ratio(found, field) for field in (("p50_ms", "p99_ms") if it["load"].startswith("latency") else ("broker_cpu_s_per_gb",))]
            shown = " and ".join(f"**{ratio:.2f}**" for ratio in ratios if ratio is not None) if broker == OURS else ""
            mark = "" if it["quiet"] else "~"
            cells = [_cell(it, "records_per_s", "{:,.0f}", mark), _cell(it, "broker_cpu_s_per_gb", "{:.3f}"), _cell(it, "p50_ms", "{:.3f}", mark), _cell(it, "p99_ms", "{:.3f}", mark), _cell(it, "rss_mb", "{:,.0f}")]
            text.append(f"| {it['load']} | {it['partitions']:,} | {it['durability']} | {broker} | {it['runs']} | {' | '.join(cells)} | {shown} |")
    return "\n".join(text) + "\n"


def _cell(it, field, shape, mark=""):
    return mark + shape.format(it[field]) if field in it else ""
