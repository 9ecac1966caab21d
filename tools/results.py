"""Write docs/results.md from the score files that recipes/real.sh leaves:  python tools/results.py runs/real > docs/results.md"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEAD = """# Results on real scans

The adapter that comes with grand3d (`default`) is SmolLM2-135M-Instruct with LoRA, trained on generated rooms only. It has
never seen a real scan. Below it answers questions about real ones: ScanNet's validation scans as Mask3D sees them.

Everything here is made by one command, an hour and a half on two cores, but the sections that name their own:

```
GRAND3D_REAL=/where/the/files/are bash recipes/real.sh
```

It takes 3D-GRAND's published graphs of Mask3D proposals and of true boxes, ScanRefer's descriptions (70 of the 141 validation
scans: the development half; generator and settings were tuned while looking at it, so it is not an unseen test), and 3D-POPE's
question files (scannet200). Brackets are 95 % intervals from a bootstrap over scenes. `first mention`, `look-up` and `always yes`
use no model: they say what the labels alone are worth, over the same questions as the adapter's row. A row with a smaller `n` was
asked about a part of the scenes only. Replies may have 192 tokens (the base: 96), and 8 on 3D-POPE. All rows below come from
replies that no grammar constrained (`--unconstrained`), the only way when they were made, unless a section says otherwise; the
adapter's could all be read.

The files, under GRAND3D_REAL: `mask3d/scannet_val_proposals.json` (proposals as 3D-GRAND feeds them: `{scene: {obj_k: {centroid,
extent, category, score}}}`), `scanrefer/val_descriptions_dev.json` (`{scene_id, object_id, description}` rows),
`scanrefer/val_ground_truth_objects.json` (true boxes of the referred objects, in the form of the proposals),
`scanrefer/object_id_to_graph_key_dev.json` (`{scene: {ScanNet object id: obj_k}}`) and `3dpope/scannet200/*.json` (3D-POPE's
question files).
"""

POPE_NOTE = """Rows are means over the four question templates, by the public script's rule (yes is the bare word "yes"), with the
spread of F1 over the templates. About a fifth of the popular and adversarial "no" labels name a thing that the scan holds, which
caps every row."""


WAYS_NOTE = """## ScanRefer, asked otherwise

`bash recipes/decoding.sh`: the same adapter, the same descriptions, other ways of answering (docs/generation.md), each against
constrained greedy replies sample by sample. `difference` is in points of Acc@0.25, its interval clustered by scene; ECE is the
expected calibration error of the chances, where there are some. The rows "all descriptions" and below are over all of them,
against the first table's replies; `--score-weight 1` multiplies each chance by the detector's score.
"""

ABSTENTION_NOTE = """## Saying that nothing fits

`ROOMS=20 bash recipes/abstention.sh`: generated rooms held out, with references that fit nothing, one object or several; chances
and thresholds fitted on other rooms. The adapter has never seen a reference without a target, or with several, in training.
`nothing fits: F1` is that of saying so; the other columns are shares named exactly.
"""


def main(folder: Path) -> None:
    print(HEAD)
    print("## ScanRefer, Mask3D proposals\n")
    scanrefer(folder, "scanrefer")
    if load(folder, "scanrefer_true.adapter"):
        print("\n## ScanRefer, true boxes of the referred objects\n")
        print("The prompt shows the true boxes of every object that ScanRefer refers to in the scene, and no others.\n")
        scanrefer(folder, "scanrefer_true")
    if load(folder.parent / "decoding", "candidates"):
        print("\n" + WAYS_NOTE)
        ways(folder.parent / "decoding")
    if load(folder.parent / "abstention", "after"):
        print("\n" + ABSTENTION_NOTE)
        abstention(folder.parent / "abstention")
    print("\n## 3D-POPE, scannet200\n\n" + POPE_NOTE + "\n")
    pope(folder)


def load(folder: Path, name: str) -> dict[str, Any] | None:
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def span(row: dict[str, Any], key: str) -> str:
    if row.get(key) is None:
        return "-"
    low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
    return f"{row[key]:.1f}" if low is None else f"{row[key]:.1f} [{low:.1f}, {high:.1f}]"


def line(*cells: Any) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def scanrefer(folder: Path, name: str) -> None:
    line("row", "n", "Acc@0.25", "Acc@0.5", "unparsable", "cut")
    line("---", "---:", "---:", "---:", "---:", "---:")
    tuned = load(folder, f"{name}.adapter")
    for title, report in (("shipped adapter", tuned), ("its untrained base", load(folder, f"{name}.base"))):
        if report is None:
            continue
        counts = report["counts"]
        for row in report["rows"] if report is tuned else report["rows"][:1]:
            first = row["name"] == "all"
            label = title if first else f"- {row['name']}"
            rest = (counts["unparsable"], counts["unfinished"]) if first else ("", "")
            line(label, row["n"], span(row, "acc25"), span(row, "acc50"), *rest)
    if tuned is None:
        return
    for row in tuned["baselines"]:
        line(f"no model: {row['name']}", row["n"], span(row, "acc25"), span(row, "acc50"), "", "")
    if name == "scanrefer":
        for row in tuned["paper"]:
            line(f"{row['name']} ({row['source']})", row["n"], span(row, "acc25"), span(row, "acc50"), "", "")
    several = tuned["counts"]["several_ids"]
    print(f"\nIoU: {tuned['rules']['iou']}. {tuned['rules']['several_ids']}; replies with several: {several}.")


def ways(folder: Path) -> None:
    line("way", "n", "Acc@0.25", "difference", "won", "lost", "unparsable", "ECE")
    line("---", *["---:"] * 7)
    titles = {
        "constrained": "constrained, greedy",
        "unconstrained": "`--unconstrained`",
        "candidates": "`--candidates`",
        "contrast": "`--contrast 0.5`",
        "orders": "`--orders 3`",
        "merged": "`prompt.merge_overlap=0.7`",
        "scored": "`prompt.serializer=scored`",
        "candidates_all": "`--candidates`, all descriptions",
        "calibrated_0": "- calibrated on generated rooms",
        "calibrated_1": "- calibrated, `--score-weight 1`",
    }
    for name, title in titles.items():
        report = load(folder, name)
        if report is None:
            continue
        (gain,) = [row for row in report["against"] if row["name"] == "acc25"]
        ece = "" if report.get("ece") is None else f"{report['ece']:.1f}"
        same = name == "constrained"
        cells = ("", "", "") if same else (span(gain, "difference"), gain["won"], gain["lost"])
        line(title, gain["n"], span(report["rows"][0], "acc25"), *cells, report["counts"]["unparsable"], ece)


def abstention(folder: Path) -> None:
    line("", "n", "nothing meant", "one meant", "several meant", "nothing fits: F1", "ECE")
    line("---", *["---:"] * 6)
    for name, title in (("before", "as the model says"), ("after", "calibrated")):
        report = load(folder, name)
        if report is not None:
            rows = {row["name"]: row for row in report["targets"]}
            exact = [span(rows[key], "exact") if key in rows else "-" for key in ("nothing", "one object", "several")]
            line(title, report["counts"]["n"], *exact, span(report["abstention"][0], "f1"), f"{report['ece']:.1f}")


def pope(folder: Path) -> None:
    line("row", "split", "n", "precision", "recall", "F1", "F1 by template", "accuracy", "yes %")
    line("---", "---", *["---:"] * 7)
    tuned = load(folder, "pope.adapter")
    for title, report in (("shipped adapter", tuned), ("its untrained base", load(folder, "pope.base"))):
        if report is not None:
            rates(title, [row for row in report["rows"] if row["rule"] == "strict" and row["template"] == "mean"])
    if tuned is None:
        return
    for name in ("look-up", "always yes"):
        rates(f"no model: {name}", [row for row in tuned["baselines"] if row["name"] == name and row["template"] == "mean"])
    for row in tuned["paper"]:
        rates(f"{row['name']} ({row['source']})", [row])
    base = load(folder, "pope.base")
    said = f"Replies that say neither yes nor no: {tuned['counts']['unknown_words']} of {tuned['counts']['n']} by the adapter"
    by_base = "" if base is None else f", {base['counts']['unknown_words']} by the base"
    print(f"\n{said}{by_base}.")


def rates(title: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        spread = f"{row['f1_min']:.1f} to {row['f1_max']:.1f}" if "f1_min" in row else ""
        cells = (span(row, "precision"), span(row, "recall"), span(row, "f1"), spread, span(row, "accuracy"), span(row, "yes"))
        line(title, row["type"], row.get("n", ""), *cells)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/real"))
