#!/usr/bin/env bash
# The shipped adapter and its untrained base on real scans: ScanRefer (detector's proposals, and true boxes) and 3D-POPE,
# then docs/results.md (for the shipped one). Needs the files that docs/results.md names; GRAND3D_REAL says where they lie.
# Usage:  recipes/real.sh [ADAPTER]        (default: the shipped one; an interrupted run goes on where it stopped: convert leaves
# data that are there already untouched, and refuses a folder that holds other data; remove it then, with its replies)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false
real=${GRAND3D_REAL:-../shared/real}
adapter=${1:-default}
out=runs/real
[ -d "$real" ] || { echo "recipes/real.sh: no folder $real; set GRAND3D_REAL to where the real files lie" >&2; exit 2; }

proposals=$real/mask3d/scannet_val_proposals.json
scanrefer=(--descriptions "$real/scanrefer/val_descriptions_dev.json" --truth "$real/scanrefer/val_ground_truth_objects.json"
    --ids "$real/scanrefer/object_id_to_graph_key_dev.json")
grand3d convert scanrefer "$out/scanrefer" "${scanrefer[@]}" --proposals "$proposals"
grand3d convert scanrefer "$out/scanrefer_true" "${scanrefer[@]}"
grand3d convert pope "$out/pope" --questions "$real/3dpope/scannet200" --proposals "$proposals"

# model, data, benchmark, tokens a reply may have, scenes asked about (0: all), further options of predict
answer() {
    local name=$1 model=$2 data=$3 bench=$4 tokens=$5 scenes=$6
    local some=() missing=()
    [ "$scenes" = 0 ] || { some=(--scenes "$scenes"); missing=(--missing skip); }
    grand3d predict "$model" "$out/$data" "$out/$data.$name.jsonl" --max-new-tokens "$tokens" --batch-size 96 "${some[@]}" "${@:7}"
    grand3d score "$bench" "$out/$data" "$out/$data.$name.jsonl" --json "${missing[@]}" >"$out/$data.$name.json"
}
answer adapter "$adapter" pope pope 8 0
answer adapter "$adapter" scanrefer scanrefer 192 0
answer adapter "$adapter" scanrefer_true scanrefer 192 "${TRUE_SCENES:-0}"
answer base base:smollm2 pope pope 8 "${BASE_SCENES:-20}" --unconstrained
answer base base:smollm2 scanrefer scanrefer 96 "${BASE_SCENES:-20}" --unconstrained
python tools/results.py "$out" >"$out/results.md"
if [ "$adapter" = default ]; then
    cp "$out/results.md" docs/results.md
fi
echo "written: $out/results.md"
