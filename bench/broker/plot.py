"""Draws the summary that comes on standard input as bars: plot.py OUT.svg < summary.json"""

import json
import sys

import matplotlib

matplotlib.use("svg")
# The same figures give the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "tidemill"

import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"tidemill": "#0b6e99", "kafka": "#e6526f"}
PANELS = (
    ("broker CPU seconds per GB (less is better)", ("produce", "consume"), ("broker_cpu_s_per_gb",)),
    ("records per second (more is better)", ("produce", "consume"), ("records_per_s",)),
    ("latency in ms: p50, and p99 pale (less is better)", ("latency", "latency-java"), ("p99_ms", "p50_ms")),
)


def main():
    summary = json.load(sys.stdin)
    panels = [(title, [name for name, found in summary.items() if next(iter(found.values()))["load"] in loads], fields) for title, loads, fields in PANELS]
    panels = [it for it in panels if it[1]]
    widest = max(len(names) for _, names, _ in panels)
    figure, axes = plt.subplots(len(panels), 1, figsize=(max(8, 1.1 * widest), 4 * len(panels)), layout="constrained", squeeze=False)
    for axis, (title, names, fields) in zip(axes[:, 0], panels):
        for number, (broker, colour) in enumerate(COLOURS.items()):
            at = [i + (number - 0.5) * 0.4 for i in range(len(names))]
            for field in fields:
                values = [summary[name].get(broker, {}).get(field) or 0 for name in names]
                pale = 0.4 if field == "p99_ms" else 1
                axis.bar(at, values, 0.4, label=broker if pale == 1 else None, color=colour, alpha=pale)
        axis.set_yscale("log")
        axis.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
        axis.set_title(title)
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
    axes[0, 0].legend(frameon=False)
    figure.savefig(sys.argv[1], metadata={"Date": None})


main()
