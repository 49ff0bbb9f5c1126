"""Draws the summary that comes on standard input as bars: plot.py OUT.svg < summary.json"""

import json
import sys

import matplotlib

matplotlib.use("svg")
# The same figures give the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "tidemill"

import matplotlib.pyplot as plt  # noqa: E402

PANELS = (("cpu_us_per_item", "CPU µs per item (less is better)"), ("throughput_per_s", "items per second (more is better)"))
COLOURS = {"tidemill": "#0b6e99", "flink": "#e6526f", "storm": "#8a8f98", "hazelcast": "#f2a33a", "timely": "#6b9e3c", "sockets": "#c9c9c9"}


def main():
    summary = json.load(sys.stdin)
    names = list(summary)
    engines = [it for it in COLOURS if any(it in found for found in summary.values())]
    width = 0.8 / max(1, len(engines))
    figure, axes = plt.subplots(len(PANELS), 1, figsize=(max(8, 1.3 * len(names)), 8), layout="constrained")
    for axis, (field, title) in zip(axes, PANELS):
        for number, engine in enumerate(engines):
            at = [i + (number - (len(engines) - 1) / 2) * width for i in range(len(names))]
            values = [summary[name].get(engine, {}).get(field) or 0 for name in names]
            axis.bar(at, values, width, label=engine, color=COLOURS[engine])
        axis.set_yscale("log")
        axis.set_xticks(range(len(names)), names)
        axis.set_title(title)
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
    axes[0].legend(ncols=len(engines), frameon=False)
    figure.savefig(sys.argv[1], metadata={"Date": None})


main()
