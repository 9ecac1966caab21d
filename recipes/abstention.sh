#!/usr/bin/env bash
# Does a model know when nothing fits, and how sure it may be? Generated rooms that no training run has seen, a third of whose
# references fit nothing or several things: chances fitted on one half of the rooms, figures on the other, before and after.
# Usage:  recipes/abstention.sh [ADAPTER]        (default: the shipped one; ROOMS=40 rooms a half)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false
adapter=${1:-default}
rooms=${ROOMS:-40}
out=runs/abstention

for half in fit test; do
    seed=910001
    [ "$half" = fit ] || seed=910002
    grand3d synth rooms "$out/$half" --scenes "$rooms" --seed "$seed" --questions 24 --none-or-several 0.45 --force
    grand3d predict "$adapter" "$out/$half" "$out/$half.jsonl" --candidates --max-new-tokens 192
done
grand3d calibrate "$out/fit" "$out/fit.jsonl" "$out/calibration.json"
printf '\n== as the model says\n'
grand3d score scanrefer "$out/test" "$out/test.jsonl"
grand3d score scanrefer "$out/test" "$out/test.jsonl" --json >"$out/before.json"
printf '\n== decided again, with chances and thresholds fitted on the other half\n'
grand3d score scanrefer "$out/test" "$out/test.jsonl" --calibration "$out/calibration.json"
grand3d score scanrefer "$out/test" "$out/test.jsonl" --calibration "$out/calibration.json" --json >"$out/after.json"
printf '\n== in one object, %s/summary.json\n' "$out"
python tools/abstention.py "$out" | tee "$out/summary.json"
