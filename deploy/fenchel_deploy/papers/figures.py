"""Figures of experiments in files, by matplotlib: panels as the paper lays them out."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fenchel_deploy.dashboard.plates import COLOURS, DPI, SETTINGS
from fenchel_deploy.papers.work import Chart, Panel

PANEL_IN = (3.0, 2.4)


def write_figures(charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Writes KEY.png and KEY.svg of every chart, and returns the PNG files."""
    written = []
    for chart in charts:
        with mpl.rc_context(SETTINGS):
            figure = _drawn(chart)
            figure.savefig(folder / f"{chart.key}.svg", metadata={"Date": None}, bbox_inches="tight")
            path = folder / f"{chart.key}.png"
            figure.savefig(path, dpi=DPI, metadata={"Software": None}, bbox_inches="tight")
            written.append(path)
    return written


def _drawn(chart: Chart) -> Figure:
    across = min(chart.across, len(chart.panels))
    down = -(-len(chart.panels) // across)
    figure = Figure(figsize=(PANEL_IN[0] * across, PANEL_IN[1] * down), layout="constrained")
    axes = np.atleast_1d(np.asarray(figure.subplots(down, across, squeeze=False))).ravel()
    for panel, place in zip(chart.panels, axes, strict=False):
        _draw(panel, place, chart.at)
    for place in axes[len(chart.panels) :]:
        place.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=max(len(labels), 1))
    figure.suptitle(chart.title)
    return figure


def _draw(panel: Panel, axes: Axes, at: Sequence[str]) -> None:
    if at:
        below = np.zeros(len(at))
        for series, colour in zip(panel.series, COLOURS, strict=False):
            axes.bar(range(len(at)), series.y, bottom=below, color=colour, label=series.label)
            below += np.asarray(series.y)
        axes.set_xticks(range(len(at)), at, rotation=20, fontsize=7)
    else:
        for series, colour in zip(panel.series, COLOURS, strict=False):
            axes.plot(series.x, series.y, color=colour, label=series.label, linewidth=1.2)
    if panel.logarithmic:
        axes.set_yscale("log")
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x_label, fontsize=8)
    axes.set_ylabel(panel.y_label, fontsize=8)
