#!/bin/bash
# bash recipes/own_scan.sh [POINTS.ply PREDICTIONS LABELS]
# From a point cloud and what a detector found in it to a conversation (docs/own_scans.md). Without arguments it makes up a scan:
# a room that stands askew, y up, in centimetres, with the masks of a pretended detector. Everything is written to runs/own_scan.
#   PREDICTIONS  NAME.npz or NAME.txt with masks over the points of NAME.ply, or a .csv / .json of boxes
#   LABELS       scannet20, scannet200, a label table (.tsv) or {number: name} (.json); boxes need none
# UP (z), UNITS (m), FRAME (estimate; boxes: axis_aligned) and ADAPTER (default) may be set.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -d .venv ] && PATH="$PWD/.venv/bin:$PATH"
export OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false

out=${OUT:-runs/own_scan}
points=${1:-$out/scan/study.ply}
predictions=${2:-$out/scan/study.npz}
labels=${3:-$out/scan/labels.json}
if [ $# -eq 0 ]; then
  UP=y UNITS=cm
  mkdir -p "$out/scan"
  echo "== a made-up scan, as a phone might write it"
  python - "$out/scan" << 'PYTHON'
import json, math, sys
import numpy as np

rng = np.random.default_rng(0)
names = {"0": "desk", "1": "office chair", "2": "bed", "3": "bookshelf"}
boxes = {  # centre and sides, metres, z up
    0: ((0.9, 0.5, 0.37), (1.6, 0.8, 0.74)), 1: ((1.0, 1.2, 0.5), (0.6, 0.6, 1.0)),
    2: ((3.0, 2.2, 0.3), (2.0, 1.6, 0.6)), 3: ((0.2, 2.0, 1.0), (0.4, 1.0, 2.0)),
}
walls = [((2, 0, 1.2), (4, 0, 2.4)), ((2, 3, 1.2), (4, 0, 2.4)), ((0, 1.5, 1.2), (0, 3, 2.4)), ((4, 1.5, 1.2), (0, 3, 2.4))]
parts = [np.array(c) + (rng.random((4000, 3)) - 0.5) * s for c, s in [*boxes.values(), *walls, ((2, 1.5, 0), (4, 3, 0))]]
owner = np.repeat(np.arange(len(parts)), 4000)
turn = math.radians(23)
x, y, z = np.concatenate(parts).T
x, y = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
points = 100 * np.stack([x, z, -y], axis=1)  # y up, centimetres
header = "ply\nformat binary_little_endian 1.0\nelement vertex %d\n" % len(points)
header += "".join(f"property float {axis}\n" for axis in "xyz") + "end_header\n"
with open(f"{sys.argv[1]}/study.ply", "wb") as file:
    file.write(header.encode() + points.astype("<f4").tobytes())
masks = np.stack([owner == k for k in boxes])
np.savez(f"{sys.argv[1]}/study.npz", pred_masks=masks, pred_scores=np.array([0.95, 0.9, 0.97, 0.8]), pred_classes=np.arange(4))
json.dump(names, open(f"{sys.argv[1]}/labels.json", "w"))
PYTHON
fi

echo "== the scan as a scene of proposals"
case "$predictions" in
  *.csv | *.json)
    grand3d convert boxes "$out/data" --boxes "$predictions" --up "${UP:-z}" --units "${UNITS:-m}" --frame "${FRAME:-axis_aligned}" --force
    ;;
  *)
    grand3d convert mask3d "$out/data" --predictions "$predictions" --points "$points" --labels "$labels" \
      --up "${UP:-z}" --units "${UNITS:-m}" --frame "${FRAME:-estimate}" --force
    ;;
esac
grand3d check "$out/data/scenes.jsonl"

echo "== questions about it"
printf 'Is there a desk in the room?\n/ground the bed\n' | grand3d chat "$out/data" --adapter "${ADAPTER:-default}"
