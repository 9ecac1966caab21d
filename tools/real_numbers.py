"""Recompute the known figures of real files, without a model: a check of boxes, converters, plurals and rates.

    python tools/real_numbers.py [--json]

The files are found under GRAND3D_REAL (default: ../shared/real beside the checkout). All figures are in percent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grand3d.bench import pope, scanrefer  # noqa: E402
from grand3d.convert import graphs  # noqa: E402
from grand3d.convert import pope as convert_pope  # noqa: E402
from grand3d.convert import scanrefer as convert_scanrefer  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402

RATES = ("precision", "recall", "f1", "accuracy", "yes")


def real_folder() -> Path:
    """The folder of real files.

    Raises:
        GrandError: If there is none.
    """
    folder = Path(os.environ.get("GRAND3D_REAL") or ROOT.parent / "shared" / "real")
    if not folder.is_dir():
        raise GrandError(f"{folder}: no such folder; set GRAND3D_REAL to the folder with the real files")
    return folder


def figures(real: Path) -> dict[str, Any]:
    """All figures, by the names they are known under."""
    proposals = real / "mask3d" / "scannet_val_proposals.json"
    truth = real / "scanrefer" / "val_ground_truth_objects.json"
    out: dict[str, Any] = {}

    bound = scanrefer.upper_bound(
        graphs.read_graphs(proposals, "mask3d"), graphs.read_graphs(truth, "scanrefer_rank", scored=False)
    )
    out["upper_bound"] = _accuracy(bound)

    descriptions = convert_scanrefer.convert(
        descriptions=real / "scanrefer" / "val_descriptions_dev.json",
        truth=truth,
        proposals=proposals,
        ids=real / "scanrefer" / "object_id_to_graph_key_dev.json",
    )
    rows = {row["name"]: row for row in scanrefer.baselines(descriptions)}
    out["upper_bound_dev"] = _accuracy(rows["best box"])
    out["first_mention_dev"] = _accuracy(rows["first mention"])

    questions = real / "3dpope" / "scannet200"
    out["pope_lookup"] = {}
    for kind in ("random", "popular", "adversarial"):
        data = convert_pope.convert(questions=questions / f"{kind}_template_1.json", proposals=proposals)
        out["pope_lookup"][kind] = _rates(pope.baselines(data)[0])

    out["leo_random"] = {}
    for template in ("template_1", "template_2", "template_3", "template_4"):
        data = convert_pope.convert(questions=questions / f"random_{template}.json", proposals=proposals)
        replies = pope.read_replies(real / "3dpope" / "leo_replies" / f"leo-sft_noact_scannet200_random_{template}.json", data)
        out["leo_random"][template] = _rates(pope.score(data, replies)["rows"][0])
    return out


def _accuracy(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("acc25", "acc50", "n")}


def _rates(row: dict[str, Any]) -> dict[str, float]:
    return {name: row[name] for name in RATES}


def _lines(table: dict[str, Any], name: str = "") -> list[str]:
    if any(isinstance(value, dict) for value in table.values()):
        return [line for key, value in table.items() for line in _lines(value, f"{name} {key}".strip())]
    cells = (f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}" for key, value in table.items())
    return [f"{name:26}" + "  ".join(cells)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Recompute the known figures of real files, without a model.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    try:
        table = figures(real_folder())
    except GrandError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(table, indent=1) if arguments.json else "\n".join(_lines(table)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
