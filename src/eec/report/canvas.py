"""The look that all figures share, and saving them. Drawn without a display or global state."""

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, MaxNLocator

from eec.files import write_whole
from eec.report.axes import percent_floor as percent_floor

# Okabe and Ito's colours, which colour-blind readers can tell apart; one meaning each
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW = "#56B4E9", "#CC79A7", "#F0E442"
INK, MUTED, FAINT = "#222222", "#666666", "#E3E3E3"

DPI = 150
# what matplotlib would write of itself and of the hour into a file of each kind
UNDATED: Mapping[str, Mapping[str, None]] = MappingProxyType(
    {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
)
HEADER_INCHES = 0.62
FOOTER_INCHES = 0.34
LEGEND_LINE_INCHES = 0.2

STYLE: Mapping[Any, Any] = MappingProxyType(
    {
        "font.size": 10,
        "font.family": ["DejaVu Sans"],
        "text.color": INK,
        # labels come from users: a dollar sign in one is a dollar sign
        "text.parse_math": False,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": FAINT,
        "grid.linewidth": 0.8,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "figure.facecolor": "white",
        # names inside an SVG are made from this, and else at random
        "svg.hashsalt": "eec",
    }
)


@contextmanager
def drawing() -> Iterator[None]:
    """Draw and save inside this: our style, and silence about letters the font lacks."""
    with matplotlib.rc_context(dict(STYLE)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def blank_figure(width: float, height: float) -> Figure:
    """A figure in inches, drawn by Agg and known to nobody else: it goes when we let go of it."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def new_figure(
    width: float, height: float, title: str, subtitle: str, note: str = "", legend_lines: int = 0
) -> Figure:
    """A figure with its heading; what is drawn later keeps clear of heading, legend and note."""
    figure = blank_figure(width, height)
    left = 0.12 / width
    figure.text(left, 1 - 0.12 / height, title, size=13, weight="bold", va="top")
    figure.text(left, 1 - 0.38 / height, subtitle, size=9, color=MUTED, va="top")
    if note:
        figure.text(left, 0.08 / height, note, size=8, color=MUTED, va="bottom")
    bottom = _foot(note) + LEGEND_LINE_INCHES * legend_lines
    room = (0, bottom / height, 1, 1 - (HEADER_INCHES + bottom) / height)
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=room, w_pad=0.1, h_pad=0.06))
    return figure


def legend_at_foot(figure: Figure, axes: Axes, columns: int, note: str = "") -> None:
    """The axes' legend in the room that `legend_lines` kept free above the footnote."""
    width, height = figure.get_size_inches()
    handles, labels = axes.get_legend_handles_labels()
    legend = figure.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.12 / width, _foot(note) / height),
        borderaxespad=0,
        borderpad=0,
        ncols=columns,
        columnspacing=1.6,
    )
    legend.set_in_layout(False)


def _foot(note: str) -> float:
    return FOOTER_INCHES if note else 0.12


def save(figure: Figure, path: Path) -> Path:
    """Write what the name ends in, PNG or SVG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    kind = path.suffix.removeprefix(".").lower()
    figure.savefig(buffer, format=kind, dpi=DPI, metadata=dict(UNDATED[kind]))
    return write_whole(path, buffer.getvalue())


def count_axis(axes: Axes, counts: list[int]) -> None:
    """Ticks at whole counts: all of them while they fit, fewer after."""
    if len(counts) <= 12:
        axes.xaxis.set_major_locator(FixedLocator(counts))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))


def percent_ticks(start: float) -> list[float]:
    """Round ticks that end at 100: the room above it holds no values."""
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(start, 100)
    # the locator adds up its steps, and 100 comes out a hair above itself
    return [t for t in (round(float(t), 6) for t in ticks) if start <= t <= 100]
