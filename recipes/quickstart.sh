#!/usr/bin/env bash
# The whole story in a few minutes on a laptop: make rooms, train, evaluate, talk. `make quickstart` installs what it needs
# and runs it. Everything it writes lies in runs/quickstart and is made anew each time.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false

out=runs/quickstart
rooms=8
seed=900001 # training rooms are drawn from other seeds

begin=$SECONDS
since=$SECONDS
heading() {
    printf '\n== %s\n' "$1"
    since=$SECONDS
}
took() { printf -- '-- %d s\n' "$((SECONDS - since))"; }

rm -rf "$out"

heading "1 of 4: make $rooms rooms that no training run has seen, with questions and right answers"
grand3d synth rooms "$out/heldout" --scenes "$rooms" --seed "$seed"
took

heading "2 of 4: train SmolLM2-135M for a few steps; held-out figures before and after"
grand3d train configs/quickstart.yaml "data.heldout=$out/heldout" --out "$out/run"
took

heading "3 of 4: the adapter that comes with grand3d, trained the same way for longer, on the same rooms"
grand3d predict default "$out/heldout" "$out/default.jsonl"
grand3d score synth "$out/heldout" "$out/default.jsonl"
took

heading "4 of 4: ask it about a room"
grand3d chat demo <<'QUESTIONS'
Are there any chairs in the room?
How many lamps are there?
/ground the chair nearest to the desk
QUESTIONS
took

cat <<END

Done in $((SECONDS - begin)) s. Next:
  .venv/bin/grand3d chat demo                         talk to the shipped adapter about the demo room
  .venv/bin/grand3d chat demo --adapter $out/run      talk to the one you just trained
  .venv/bin/grand3d train configs/smollm2.yaml        train for real (hours on a CPU, minutes on a GPU)
END
