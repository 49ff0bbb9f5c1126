"""Medians of the runs, as a table in Markdown."""

from collections import defaultdict
from statistics import median

from cases import ENGINES, OURS, SOCKETS

FIELDS = ("throughput_per_s", "cpu_us_per_item", "p50_ms", "p99_ms", "peak_rss_mb", "allocations_per_million_items")


def summarise(lines, session):
    """Medians by case, then by engine, of one session's runs. Where no run of an engine was quiet,
    those that were not are taken, and `quiet` is false."""
    runs = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line["session"] == session:
            runs[line["case"]][line["engine"]].append(line)
    return {
        case: {engine: _medians(found[engine]) for engine in ENGINES if engine in found}
        for case, found in runs.items()
    }


def _medians(lines):
    worked = [it for it in lines if "result" in it]
    quiet = [it for it in worked if it["quiet"]]
    used = [it["result"] for it in quiet or worked]
    if not used:
        return {"runs": 0, "quiet": False}
    medians = {"runs": len(used), "quiet": bool(quiet)}
    for field in FIELDS:
        values = [it[field] for it in used if it.get(field) is not None]
        if values:
            medians[field] = median(values)
    return medians


def best_peer(engines):
    """The peer with the least CPU per item: its name and that time, or None."""
    found = [
        (it["cpu_us_per_item"], engine)
        for engine, it in engines.items()
        if engine not in (OURS, SOCKETS) and it.get("cpu_us_per_item")
    ]
    return min(found, default=None)


def markdown(summary, session):
    """The table, with what its columns mean."""
    lines = [
        "# Tidemill and its peers",
        "",
        f"Session {session}. Medians of rounds in which the engines took turns on one machine.",
        "",
        "`CPU` is CPU time of all the engine's processes per message, word or event; `CPU / best peer` is",
        "Tidemill's divided by that of the peer with the least. At saturation the latency is that of full",
        "queues; only `rate` tells how fast a message passes. `~`: the machine was never quiet, so the",
        "throughput is a lower bound. `sockets` is no engine: what two processes and their sockets cost alone.",
        "",
        "| workload | engine | runs | throughput /s | CPU µs/item | CPU / best peer | p50 ms | p99 ms | RSS MB | allocations per million |",
        "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for case, engines in summary.items():
        best = best_peer(engines)
        for engine, it in engines.items():
            if not it["runs"]:
                lines.append(f"| {case} | {engine} | 0 | failed | | | | | | |")
                continue
            cpu = it.get("cpu_us_per_item")
            ratio = f"**{cpu / best[0]:.2f}** ({best[1]})" if engine == OURS and best and cpu is not None else ""
            cells = [
                case,
                engine,
                f"{'' if it['quiet'] else '~'}{it['runs']}",
                _number(it.get("throughput_per_s"), 0),
                _number(cpu, 4),
                ratio,
                _number(it.get("p50_ms"), 3),
                _number(it.get("p99_ms"), 3),
                _number(it.get("peak_rss_mb"), 0),
                _number(it.get("allocations_per_million_items"), 0),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(value, digits):
    return "" if value is None else f"{value:,.{digits}f}"
