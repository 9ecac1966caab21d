"""What recipes/abstention.sh found, as one JSON object:  python tools/abstention.py runs/abstention

``before`` is what the model says, ``after`` what the fitted chances and thresholds decide; percent, with 95 % intervals clustered
by scene as [low, high].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError
from grand3d.files import read_json


def figures(report: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a report on references that may mean nothing, one object or several.

    Raises:
        GrandError: If the report has none.
    """
    if "abstention" not in report or "ece" not in report:
        raise GrandError("the report lacks abstention or ece, expected replies of predict --candidates to --none-or-several data")
    (row,) = report["abstention"]
    out: dict[str, Any] = {"n": row["n"], "nothing_said": row["said"], "nothing_true": row["true"], "ece": report["ece"]}
    for key in ("precision", "recall", "f1"):
        out |= _with_interval(f"abstention_{key}", row, key)
    for line in report["targets"]:
        name = line["name"].replace(" ", "_")
        out[f"{name}_n"] = line["n"]
        out |= _with_interval(f"{name}_exact", line, "exact") | _with_interval(f"{name}_set_f1", line, "f1")
    return out


def _with_interval(name: str, row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: row[key], f"{name}_interval": [row[f"{key}_low"], row[f"{key}_high"]]}


def main(folder: Path) -> None:
    found: dict[str, Any] = {name: figures(read_json(folder / f"{name}.json")) for name in ("before", "after")}
    print(json.dumps({"calibration": read_json(folder / "calibration.json")} | found, indent=1))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/abstention"))
    except GrandError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
