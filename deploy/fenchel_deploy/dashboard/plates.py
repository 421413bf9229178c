"""The charts of documents as figures for a paper: SVG and PNG, by matplotlib, from the numbers that the page shows."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fenchel_common.errors import InvalidInput
from fenchel_deploy.dashboard.documents import Chart, Document, Form

COLOURS: Final = (
    "#0072b2", "#c65300", "#008560", "#b0538f", "#a87400", "#3a93c9", "#6f7b86", "#3f4a55", "#9aa3a0", "#c2c7c3",
)  # fmt: skip
"""The palette of page.css, on white."""
MAP_COLOURS: Final = ("#c65300", "#dfe2df", "#4c9ac4")
MAP_WORDS: Final = ("left out", "not asked", "took part")
MARKERS: Final = "os^Dvp"
DASHES: Final = ("-", "--", ":", "-.")
"""Lines over positions of their own may be the same in part: those drawn later are broken."""
WIDTH_IN: Final = 5.2
DPI: Final = 200
SETTINGS: Final[dict[Any, Any]] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dcdedb",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "fenchel",  # the same figures give the same file
}


def write_plates(documents: Sequence[Document], folder: Path) -> list[Path]:
    """Writes DOCUMENT-CHART.svg and .png for every chart, and returns the files."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, chart in _charts(documents):
            with mpl.rc_context(SETTINGS):
                figure = drawn(chart)
                for suffix in ("svg", "png"):
                    path = folder / f"{name}.{suffix}"
                    metadata = {"Date": None} if suffix == "svg" else {"Software": None}
                    figure.savefig(path, dpi=DPI, metadata=metadata, bbox_inches="tight")
                    written.append(path)
    except OSError as error:
        raise InvalidInput(f"--figures: {folder} cannot be written: {error.strerror}") from error
    return written


def _charts(documents: Sequence[Document]) -> Iterator[tuple[str, Chart]]:
    for document in documents:
        stem = document.kind if document.kind == "comparison" else re.sub(r"[^\w-]", "_", document.name)
        for section in document.sections:
            for item in section.items:
                if isinstance(item, Chart):
                    yield f"{stem}-{item.key}", item


def drawn(chart: Chart) -> Figure:
    """The chart as a figure of matplotlib."""
    rows = len(chart.series) if chart.kind == "map" else len(chart.at) if chart.kind in ("ranges", "bars") else 0
    figure = Figure(figsize=(WIDTH_IN, max(1.4, min(0.18 * rows + 0.9, 9)) if rows else 3.0))
    axes = figure.add_subplot()
    {"lines": _lines, "stack": _stack, "bars": _bars, "map": _map, "ranges": _ranges}[chart.kind](axes, chart)
    return figure


def _colour(chart: Chart, number: int) -> str:
    return COLOURS[(chart.slots[number] if chart.slots else number) % len(COLOURS)]


def _named(axes: Axes, chart: Chart) -> None:
    axes.set_xlabel(chart.x.name)
    axes.set_ylabel(chart.y.name)
    if chart.x.form is Form.COUNT:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if chart.y.form is Form.SHARE:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol="\N{NO-BREAK SPACE}%"))


def _lines(axes: Axes, chart: Chart) -> None:
    if chart.y.log and any(value is not None for one in chart.series for value in one.values):
        axes.set_yscale("log")
    for number, one in enumerate(chart.series):
        pairs = zip(one.at or chart.at, one.values, strict=True)
        measured = [(float(at), float(value)) for at, value in pairs if at is not None and value is not None]
        marker = MARKERS[number % len(MARKERS)] if len(measured) <= 60 else None
        axes.plot(
            [at for at, _ in measured],
            [value for _, value in measured],
            color=_colour(chart, number),
            marker=marker,
            markersize=3.5,
            linewidth=1.4,
            linestyle=DASHES[number % len(DASHES)] if one.at else "-",
            label=one.name,
        )
    if chart.goal is not None:
        axes.axhline(chart.goal, color="#b54700", linestyle="--", linewidth=1, label="goal")
    _named(axes, chart)
    if len(axes.get_lines()) > 1:
        axes.legend()


def _stack(axes: Axes, chart: Chart) -> None:
    positions = np.arange(len(chart.at)) if chart.x.form is Form.TEXT else _numbers(chart.at)
    spacing = float(np.diff(positions).min()) if len(positions) > 1 else 1.0
    floor = np.zeros(len(chart.at))
    for number, one in enumerate(chart.series):
        height = _numbers(one.values)
        axes.bar(positions, height, 0.8 * spacing, bottom=floor, color=_colour(chart, number), label=one.name)
        floor += height
    _named(axes, chart)
    if chart.x.form is Form.TEXT:
        axes.set_xticks(positions, [str(name) for name in chart.at])
    axes.grid(visible=False, axis="x")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), reverse=True)


def _bars(axes: Axes, chart: Chart) -> None:
    axes.barh(range(len(chart.at)), _numbers(chart.series[0].values), color=COLOURS[0])
    _rows(axes, chart, chart.at)
    axes.grid(visible=False, axis="y")


def _rows(axes: Axes, chart: Chart, names: Sequence[object]) -> None:
    """The first name on top."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [str(name) for name in names], fontsize=8 if len(names) <= 24 else 4)
    _named(axes, chart)


def _map(axes: Axes, chart: Chart) -> None:
    colours = mpl.colors.ListedColormap(MAP_COLOURS)
    table = np.array([one.values for one in chart.series], dtype=float)
    columns = _numbers(chart.at)
    edges = np.append(columns, columns[-1] + 1) - 0.5
    apart = 0.8 if len(columns) <= 60 and len(table) <= 24 else 0.0
    mesh = axes.pcolormesh(edges, np.arange(len(table) + 1) - 0.5, table, cmap=colours, vmin=-0.5, vmax=2.5)
    mesh.set(edgecolors="white" if apart else "face", linewidth=apart)
    _rows(axes, chart, [one.name for one in chart.series])
    axes.grid(visible=False)
    patches = [mpl.patches.Patch(color=colour, label=word) for colour, word in zip(MAP_COLOURS, MAP_WORDS, strict=True)]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _ranges(axes: Axes, chart: Chart) -> None:
    least, low, median, high, most = (_numbers(one.values) for one in chart.series)
    rows = np.arange(len(chart.at))
    axes.hlines(rows, least, most, color=COLOURS[0], linewidth=0.8)
    axes.hlines(rows, low, high, color=COLOURS[0], linewidth=3)
    axes.plot(median, rows, "o", color="white", markeredgecolor=COLOURS[0], markersize=4)
    _rows(axes, chart, chart.at)
    axes.set_xlim(left=0)


def _numbers(values: Sequence[Any]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
