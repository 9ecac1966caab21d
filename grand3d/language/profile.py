"""The language of whole data sets: how often each pattern occurs, how rich the words are, and how two sets differ.

Follows ViGiL3D (Wang et al., 2025), whose tables mark a pattern as absent below 5 % of the expressions and as frequent from
20 % on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.errors import GrandError
from grand3d.language.measures import ANCHOR_TYPES, ATTRIBUTE_TYPES, COUNTS, GRANULARITIES, RELATION_TYPES
from grand3d.language.words import tokens
from grand3d.metrics import mean_interval, proportions_differ

SOME, MANY = 0.05, 0.20
"""Shares from which a pattern is there at all, and from which it is frequent."""
MARKS = ("absent", "some", "a lot")

Measured = Mapping[str, Any]

LABELS: dict[str, tuple[str, Any]] = {
    **{f"num_attribute_type_{kind}": (f"num_attribute_type_{kind}", None) for kind in ATTRIBUTE_TYPES},
    **{f"num_relationship_type_{kind}": (f"num_relationship_type_{kind}", None) for kind in RELATION_TYPES},
    "num_coreferences": ("num_coreferences", None),
    "num_target_not_first_np": ("num_target_not_first_np", None),
    **{f"granularity_{name}": ("granularity", name) for name in GRANULARITIES},
    **{f"num_anchor_type_{kind}": (f"num_anchor_type_{kind}", None) for kind in ANCHOR_TYPES},
    "num_negation": ("num_negation", None),
}
"""The 28 patterns that an expression has or has not: name -> column of ViGiL3D's file, and the value where it is no number."""


def has(measured: Measured, label: str) -> bool:
    """Whether an expression has a pattern of LABELS; ``measured`` are columns of ViGiL3D's file, measured or by hand."""
    column, value = LABELS[label]
    return bool(measured[column]) if value is None else measured[column] == value


def mark(share: float) -> str:
    """``absent``, ``some`` or ``a lot``: the share (0 to 1) of expressions that have a pattern, by ViGiL3D's two bounds."""
    return MARKS[(share >= SOME) + (share >= MANY)]


def profile(rows: Sequence[Measured], scenes: Sequence[str]) -> list[dict[str, Any]]:
    """Means of the counts and shares of the patterns, with 95 % intervals clustered by scene.

    Args:
        rows: What ``measure`` gives, or the labels of a file (n).
        scenes: Their scenes (n); one that is not known is an empty text, and each such expression stands for itself.

    Returns:
        A row a measure: ``name``, ``mean`` for counts, ``share`` in percent with its ``mark`` for patterns; ``n`` is the number
        of expressions that have it.

    Raises:
        GrandError: If there is no expression.
    """
    if not rows:
        raise GrandError("there is no expression to analyse, expected at least one")
    clusters = [scene or f"#{k}" for k, scene in enumerate(scenes)]
    out: list[dict[str, Any]] = []
    attributes, relations = COUNTS[:2], COUNTS[2:]
    for name, columns in (
        ("num_attributes", attributes),
        *((column, (column,)) for column in attributes),
        ("num_relationships", relations),
        *((column, (column,)) for column in relations),
    ):
        values = np.array([sum(row[column] for column in columns) for row in rows], np.float64)
        row = {"name": name, "mean": float(values.mean())} | _bounds("mean", values, clusters)
        out.append(row | {"n": int((values > 0).sum())})
    for label in LABELS:
        values = np.array([has(row, label) for row in rows], np.float64)
        share = float(values.mean())
        row = {"name": label, "share": 100 * share} | _bounds("share", 100 * values, clusters)
        out.append(row | {"n": int(values.sum()), "mark": mark(share)})
    return out


def _bounds(name: str, values: NDArray[np.float64], clusters: Sequence[str]) -> dict[str, float | None]:
    """The interval of a mean under the keys of a table; None where too few scenes say nothing about it."""
    ends = zip(("low", "high"), mean_interval(values, clusters), strict=True)
    return {f"{name}_{end}": None if math.isnan(value) else value for end, value in ends}


def vocabulary(texts: Sequence[str], num_points: int = 8) -> dict[str, Any]:
    """How rich the words of texts are.

    Returns:
        ``words`` (their mean number an expression), ``distinct_words``, ``bigrams``, ``unique_bigrams`` (different pairs of
        neighbouring words in percent of all pairs: ViGiL3D's lexical diversity, which falls with the size of a data set),
        and ``growth``: rows of distinct words after so many expressions, in their order.
    """
    words: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    num_words = num_pairs = 0
    steps = {max(1, round(len(texts) * k / num_points)) for k in range(1, num_points + 1)}
    growth = []
    for number, text in enumerate(texts, 1):
        row = [token.lower for token in tokens(text) if token.lower[:1].isalnum()]
        words |= set(row)
        pairs |= set(pairwise(row))
        num_words, num_pairs = num_words + len(row), num_pairs + max(len(row) - 1, 0)
        if number in steps:
            growth.append({"expressions": number, "distinct_words": len(words), "distinct_bigrams": len(pairs)})
    return {
        "words": num_words / max(len(texts), 1),
        "distinct_words": len(words),
        "bigrams": num_pairs,
        "unique_bigrams": 100 * len(pairs) / num_pairs if num_pairs else math.nan,
        "growth": growth,
    }


def beside(profiles: Mapping[str, Sequence[Mapping[str, Any]]], sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Profiles of several data sets in one table; for two also the p value of the test that their shares are the same."""
    out = []
    for lines in zip(*profiles.values(), strict=True):
        row: dict[str, Any] = {"name": lines[0]["name"]}
        for name, line in zip(profiles, lines, strict=True):
            figure = "share" if "share" in line else "mean"
            row |= {name: line[figure], f"{name}_low": line[f"{figure}_low"], f"{name}_high": line[f"{figure}_high"]}
            row[f"{name}: mark"] = line.get("mark", "")
        if len(lines) == 2:
            first, second = profiles
            p = math.nan
            if "share" in lines[0]:
                p = proportions_differ(lines[0]["n"], sizes[first], lines[1]["n"], sizes[second])
            row["p"] = None if math.isnan(p) else p
        out.append(row)
    return out


def agreement(found: Sequence[Measured], labels: Sequence[Measured]) -> dict[str, Any]:
    """How well measured patterns agree with those that people gave.

    Returns:
        ``mean``: macro mean of precision and recall over the 28 patterns, each from 0 to 1; ``metrics``: of each pattern
        precision (0 where it was never found), recall (None where nobody gave it) and counts; ``absolute_errors``: mean absolute
        error of the four counts.
    """
    metrics: dict[str, Any] = {}
    for label in LABELS:
        ours, theirs = [has(row, label) for row in found], [has(row, label) for row in labels]
        hits = sum(a and b for a, b in zip(ours, theirs, strict=True))
        metrics[label] = {
            "precision": hits / sum(ours) if any(ours) else 0.0,
            "recall": hits / sum(theirs) if any(theirs) else None,
            "true": sum(theirs),
            "found": sum(ours),
            "both": hits,
        }
    recalls = [metric["recall"] for metric in metrics.values() if metric["recall"] is not None]
    mean = {
        "precision": sum(metric["precision"] for metric in metrics.values()) / len(metrics),
        "recall": sum(recalls) / len(recalls) if recalls else None,
    }
    errors = {
        name: sum(abs(a[name] - b[name]) for a, b in zip(found, labels, strict=True)) / max(len(found), 1) for name in COUNTS
    }
    return {"mean": mean, "metrics": metrics, "absolute_errors": errors}


def groups(samples: Sequence[Mapping[str, Any]], measured: Mapping[str, Measured]) -> list[dict[str, Any]]:
    """Figures of the samples of a report by the patterns of what they were asked.

    Args:
        samples: ``report["samples"]``; every key that holds numbers from 0 to 1 in all of them is a figure.
        measured: Patterns by sample_id; samples that are not there count in no row.

    Returns:
        A row a pattern: ``n``, each figure in percent with its interval, ``rest`` of the first figure (the samples without the
        pattern) and ``p`` of the two-proportion z-test between both, where the figure is right or wrong.
    """
    known = [row for row in samples if row["sample_id"] in measured]
    figures = [name for name in (known[0] if known else ()) if all(_is_share(row.get(name)) for row in known)]
    out: list[dict[str, Any]] = []
    for label in LABELS if figures else ():
        inside = [row for row in known if has(measured[row["sample_id"]], label)]
        outside = [row for row in known if not has(measured[row["sample_id"]], label)]
        if not inside:
            continue
        line: dict[str, Any] = {"name": label, "n": len(inside)}
        for figure in figures:
            values = np.array([row[figure] for row in inside], np.float64)
            line[figure] = 100 * float(values.mean())
            line |= _bounds(figure, 100 * values, [row["scene_id"] for row in inside])
        first = figures[0]
        hits, others = sum(row[first] for row in inside), sum(row[first] for row in outside)
        line[f"{first} of the rest"] = 100 * others / len(outside) if outside else None
        p = proportions_differ(hits, len(inside), others, len(outside))
        line["p"] = None if math.isnan(p) or any(row[first] not in (0, 1) for row in known) else p
        out.append(line)
    return out


def _is_share(value: Any) -> bool:
    return isinstance(value, bool | int | float) and 0 <= value <= 1
