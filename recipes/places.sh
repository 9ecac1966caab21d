#!/usr/bin/env bash
# Placing things on tables: makes ReRef-3D's kind of data, trains on it from the shipped adapter on, and scores tables that no run
# has seen, with replies as the model likes and kept inside their grammar; the third time things are
# put only where they have room. Rows without a model stand in the reports.
# Usage:  recipes/places.sh [ADAPTER]        (without one it is trained first; SCENES=998, INSTRUCTIONS=33826, HELDOUT=20)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false
adapter=${1:-runs/places}
heldout=${HELDOUT:-20}
out=runs/places_heldout
mkdir -p "$out"

if [ $# -eq 0 ] && [ ! -d runs/places/adapter ]; then
    grand3d synth tabletop runs/tabletop --scenes "${SCENES:-998}" --instructions "${INSTRUCTIONS:-33826}" --seed 0
    grand3d train configs/places.yaml --out runs/places
fi
grand3d synth tabletop "$out/tables" --scenes "$heldout" --instructions $((34 * heldout)) --seed 1 --force
for way in constrained unconstrained free-places; do
    flag=()
    [ "$way" = constrained ] || flag=("--$way")
    grand3d predict "$adapter" "$out/tables" "$out/$way.jsonl" --max-new-tokens 96 ${flag[@]+"${flag[@]}"}
    printf '\n== %s\n' "$way"
    grand3d score reref3d "$out/tables" "$out/$way.jsonl"
    grand3d score reref3d "$out/tables" "$out/$way.jsonl" --json >"$out/$way.json"
done
grand3d score reref3d "$out/tables" "$out/constrained.jsonl" --against "$out/free-places.jsonl" --html "$out/report.html" >/dev/null
echo "written: $out/report.html"
