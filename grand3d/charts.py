"""Plots as inline SVG: text in, text out, no package needed. Colours come from the page's style, so that it can be dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

WIDTH, ROW, LEFT, RIGHT = 620, 24, 222, 116
"""Pixels: of a plot, of its rows, beside its axis for names and for numbers."""
NAME_LETTERS = 30


@dataclass(frozen=True, slots=True)
class Mark:
    """A figure to draw.

    Attributes:
        kind: Style class: ``ours``, ``none`` (without a model), ``paper``, ``good``, ``bad``.
        note: Small text behind the number, such as ``n 120``.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    kind: str = "ours"
    note: str = ""


def dots(marks: Sequence[Mark], label: str, zero: bool = False, unit: str = " %") -> str:
    """A dot and its interval per row, over one axis that starts at 0, or with ``zero`` lies around it."""
    values = [v for mark in marks for v in (mark.value, mark.low, mark.high) if v is not None]
    most = _nice(max(map(abs, values), default=1.0))
    least = -most if zero else 0.0
    height, span = ROW * len(marks) + 34, WIDTH - LEFT - RIGHT

    def across(value: float) -> float:
        return round(LEFT + span * (min(max(value, least), most) - least) / (most - least), 1)

    out = [_head(WIDTH, height, label)]
    for k in range(5):
        tick = least + (most - least) * k / 4
        x = across(tick)
        out.append(f'<line class="{"axis" if tick == 0 else "grid"}" x1="{x}" x2="{x}" y1="4" y2="{height - 26}"/>')
        out.append(f'<text class="small" x="{x}" y="{height - 8}" text-anchor="middle">{tick:g}</text>')
    for row, mark in enumerate(marks):
        y = 4 + ROW * row + ROW / 2
        out.append(f'<g class="{mark.kind}"><title>{escape(_told(mark, unit))}</title>')
        out.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(_short(mark.name))}</text>')
        if mark.low is not None and mark.high is not None:
            out.append(f'<line class="bar" x1="{across(mark.low)}" x2="{across(mark.high)}" y1="{y}" y2="{y}"/>')
        out.append(f'<circle cx="{across(mark.value)}" cy="{y}" r="4.5"/>')
        note = f' <tspan class="small">{escape(mark.note)}</tspan>' if mark.note else ""
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y + 4}">{mark.value:.1f}{note}</text></g>')
    return "".join([*out, "</svg>"])


def bars(marks: Sequence[Mark], label: str) -> str:
    """A bar per row, for counts; its share stands in ``note``."""
    most = max((mark.value for mark in marks), default=1.0) or 1.0
    height, span = ROW * len(marks) + 8, WIDTH - LEFT - RIGHT
    out = [_head(WIDTH, height, label)]
    for row, mark in enumerate(marks):
        y = 4 + ROW * row
        out.append(f'<g class="{mark.kind}"><title>{escape(_told(mark, ""))}</title>')
        out.append(f'<text x="{LEFT - 10}" y="{y + ROW / 2 + 4}" text-anchor="end">{escape(_short(mark.name))}</text>')
        out.append(f'<rect x="{LEFT}" y="{y + 4}" width="{max(1.0, span * mark.value / most):.1f}" height="{ROW - 8}" rx="2"/>')
        note = f' <tspan class="small">{escape(mark.note)}</tspan>' if mark.note else ""
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y + ROW / 2 + 4}">{mark.value:g}{note}</text></g>')
    return "".join([*out, "</svg>"])


def reliability(rows: Sequence[tuple[float, float, int]], label: str) -> str:
    """Accuracy over confidence, a point a bin, its area as the number in it; on the diagonal chances are to be trusted.

    Args:
        rows: (confidence, accuracy, n) in percent.
    """
    side, edge = 320, 44
    most = max((n for _, _, n in rows), default=1)

    def at(x: float, y: float) -> tuple[float, float]:
        return round(edge + (side - 2 * edge) * x / 100, 1), round(side - edge - (side - 2 * edge) * y / 100, 1)

    out = [_head(side, side, label)]
    for tick in range(0, 101, 25):
        (x, low), (_, high), (left, y), (right, _) = at(tick, 0), at(tick, 100), at(0, tick), at(100, tick)
        out.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{low}" y2="{high}"/>')
        out.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>')
        out.append(f'<text class="small" x="{x}" y="{low + 16}" text-anchor="middle">{tick}</text>')
        out.append(f'<text class="small" x="{left - 6}" y="{y + 4}" text-anchor="end">{tick}</text>')
    (x, y), (to_x, to_y) = at(0, 0), at(100, 100)
    out.append(f'<line class="axis" x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}"/><g class="ours">')
    for confidence, accuracy, n in rows:
        x, y = at(confidence, accuracy)
        told = f"{confidence:.1f} % sure, {accuracy:.1f} % right, n {n}"
        out.append(f'<circle cx="{x}" cy="{y}" r="{3 + 9 * math.sqrt(n / most):.1f}"><title>{told}</title></circle>')
    middle = side / 2
    out.append(f'</g><text class="small" x="{middle}" y="{side - 8}" text-anchor="middle">how sure, %</text>')
    turned = f'x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})"'
    out.append(f'<text class="small" {turned}>how often right, %</text></svg>')
    return "".join(out)


def room(footprints: Sequence[tuple[NDArray[np.float64], str, str]], label: str, side: int = 340) -> str:
    """A room from above, x to the right and y up, with a bar of one metre.

    Args:
        footprints: (corners (n, 2) in metres, style class, name) each; the first are drawn first. Only ``target``, ``answer`` and
            ``both`` have their name written.
    """
    points = np.concatenate([corners for corners, _, _ in footprints]) if footprints else np.zeros((1, 2))
    low, high = points.min(axis=0), points.max(axis=0)
    edge = 14
    scale = (side - 2 * edge) / max(float((high - low).max()), 0.5)
    height = round(float(high[1] - low[1]) * scale + 2 * edge + 22)

    def at(point: NDArray[np.float64]) -> tuple[float, float]:
        return round(edge + (point[0] - low[0]) * scale, 1), round(height - 22 - edge - (point[1] - low[1]) * scale, 1)

    out, written = [_head(side, height, label)], []
    for corners, kind, name in footprints:
        path = " ".join(f"{x},{y}" for x, y in map(at, corners))
        out.append(f'<polygon class="{kind}" points="{path}"><title>{escape(name)}</title></polygon>')
        if kind in ("target", "answer", "both"):
            x, y = at(corners.mean(axis=0))
            x = min(max(x, 40), side - 40)
            place = f'class="small over {kind}" x="{x}" y="{y + 4}" text-anchor="middle"'
            written.append(f"<text {place}>{escape(_short(name, 16))}</text>")
    metre = f'<line class="axis" x1="{edge}" x2="{edge + scale:.1f}" y1="{height - 10}" y2="{height - 10}"/>'
    return "".join([*out, *written, metre, f'<text class="small" x="{edge + scale + 6:.1f}" y="{height - 6}">1 m</text></svg>'])


def _head(width: int, height: float, label: str) -> str:
    return f'<svg viewBox="0 0 {width} {height:g}" style="max-width:{width}px" role="img" aria-label="{escape(label)}">'


def _nice(value: float) -> float:
    """The next of 1, 2, 2.5, 4, 5, 6, 8 times a power of ten, or 100 from 80 on."""
    if value < 1e-9 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(k * power for k in (1, 2, 2.5, 4, 5, 6, 8, 10) if k * power >= value * (1 - 1e-9))


def _short(text: str, letters: int = NAME_LETTERS) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _told(mark: Mark, unit: str) -> str:
    bounds = "" if mark.low is None or mark.high is None else f" [{mark.low:.1f}, {mark.high:.1f}]"
    return f"{mark.name}: {mark.value:.1f}{unit}{bounds}{', ' if mark.note else ''}{mark.note}"
