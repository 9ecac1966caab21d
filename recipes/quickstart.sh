#!/usr/bin/env bash
# The whole story in a few minutes on a laptop: make rooms, train, evaluate, talk. `make quickstart` installs what it needs
# and runs it. Everything it writes lies in runs/quickstart and is made anew each time.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive TOKENIZERS_PARALLELISM=false GLIBC_TUNABLES=glibc.malloc.hugetlb=1

out=runs/quickstart
rooms=6
questions=12 # a room
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
grand3d synth rooms "$out/heldout" --scenes "$rooms" --seed "$seed" --questions "$questions"
took

heading "2 of 4: train SmolLM2-135M for a few steps; held-out figures before and after"
grand3d train configs/quickstart.yaml "data.heldout=$out/heldout" --out "$out/run"
python - "$out/run/log.jsonl" <<'TABLE'
import json, sys
figures = [row["eval"] for line in open(sys.argv[1]) if "eval" in (row := json.loads(line))]
print(f"\n{'held-out, percent':28}{'before':>8}{'after':>8}")
for name, value in figures[-1].items():
    if isinstance(value, float):
        print(f"{name.replace('_', ' '):28}{figures[0][name]:8.1f}{value:8.1f}")
TABLE
took

heading "3 of 4: the adapter that comes with grand3d, trained the same way for longer, on the same rooms"
grand3d predict default "$out/heldout" "$out/default.jsonl"
grand3d score synth "$out/heldout" "$out/default.jsonl"
took

heading "4 of 4: ask it about a room (check the answers: they name objects, and are not always right)"
grand3d chat demo <<'QUESTIONS'
Are there any chairs in the room?
Is there a bed in the room?
/ground the lamp on the table
QUESTIONS
took

cat <<END

Done in $((SECONDS - begin)) s. Next:
  .venv/bin/grand3d chat demo                         talk to the shipped adapter about the demo room
  .venv/bin/grand3d chat demo --adapter $out/run      talk to the one you just trained
  .venv/bin/grand3d train configs/smollm2.yaml        train for real (45 minutes on two cores, then configs/smollm2_long.yaml)
END
