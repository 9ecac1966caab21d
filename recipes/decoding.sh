#!/usr/bin/env bash
# What each way of asking does to a finished adapter's figures: ScanRefer's descriptions of the first scenes, every way against
# constrained greedy replies, sample by sample. recipes/real.sh comes first: it makes the data.
# Usage:  recipes/decoding.sh [ADAPTER]        (default: the shipped one; SCENES=8, CANDIDATE_SCENES=1000 for the candidates alone)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false
adapter=${1:-default}
scenes=${SCENES:-8}
data=runs/real/scanrefer
out=runs/decoding
mkdir -p "$out"
[ -d "$data" ] || { echo "recipes/decoding.sh: no $data; run recipes/real.sh first" >&2; exit 2; }

way() { # name, scenes asked about, options of predict
    grand3d predict "$adapter" "$data" "$out/$1.jsonl" --max-new-tokens 192 --scenes "$2" "${@:3}"
    grand3d score scanrefer "$data" "$out/$1.jsonl" --missing skip --json --against "$out/constrained.jsonl" >"$out/$1.json"
}
way constrained "$scenes"
way unconstrained "$scenes" --unconstrained
way candidates "$scenes" --candidates
way contrast "$scenes" --contrast 0.5
way orders "$scenes" --orders 3
way merged "$scenes" prompt.merge_overlap=0.7
way scored "$scenes" prompt.serializer=scored
grand3d predict "$adapter" "$data" "$out/candidates_all.jsonl" --max-new-tokens 192 --scenes "${CANDIDATE_SCENES:-1000}" --candidates
all() { # name, further options of score: the chances of all descriptions, against the first table's replies
    grand3d score scanrefer "$data" "$out/candidates_all.jsonl" --missing skip --json --against runs/real/scanrefer.adapter.jsonl \
        "${@:2}" >"$out/$1.json"
}
all candidates_all
# temperatures fitted on generated rooms, with the detector's scores at their word or left out
grand3d synth rooms "$out/fit" --scenes 20 --seed 920001 --questions 24 --force
grand3d predict "$adapter" "$out/fit" "$out/fit.jsonl" --max-new-tokens 192 --candidates
for weight in 0 1; do
    grand3d calibrate "$out/fit" "$out/fit.jsonl" "$out/calibration_$weight.json" --score-weight "$weight"
    all "calibrated_$weight" --calibration "$out/calibration_$weight.json"
done
python tools/results.py runs/real >runs/real/results.md
echo "written: runs/real/results.md"
