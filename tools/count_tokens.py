"""Tokens an object of each scene text over real proposals, with SmolLM2's tokenizer and one of Llama's kind.

    GRAND3D_REAL=/where/the/files/are python tools/count_tokens.py [--json]

Every scene is written as it stands in a prompt (top_k 40), header included. Llama's kind is the 32,000-piece sentencepiece model
that the package mistral-common carries.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from real_numbers import real_folder

from grand3d.convert.graphs import read_graphs
from grand3d.embeddings import add_tokens
from grand3d.errors import GrandError, import_extra
from grand3d.model import load_tokenizer
from grand3d.serial import FORMS, fit_scene


def llama_like() -> Any:
    found = importlib.util.find_spec("mistral_common")  # located, not imported: its own dependencies are not needed
    if found is None:
        raise GrandError("the tokenizer of Llama's kind comes with: pip install --no-deps mistral-common")
    model = Path(found.origin).parent / "data" / "tokenizer.model.v1"
    transformers = import_extra("transformers", "train")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(model, Path(folder) / "tokenizer.model")
        return transformers.LlamaTokenizer.from_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object in place of a table")
    options = parser.parse_args()
    scenes = read_graphs(real_folder() / "mask3d" / "scannet_val_proposals.json", "mask3d")
    report: dict[str, dict[str, float]] = {}
    for name, tokenizer in (("smollm2", load_tokenizer("smollm2")), ("llama_like", llama_like())):
        report[name] = {}
        for form in FORMS:
            add_tokens(tokenizer, form)
            texts = [fit_scene(scene, form) for scene in scenes.values()]
            tokens = sum(len(tokenizer.encode(text.text, add_special_tokens=False)) for text in texts)
            report[name][form] = round(tokens / sum(len(text.object_ids) for text in texts), 2)
    if options.json:
        print(json.dumps({"scenes": len(scenes), **report}))
        return
    print(f"tokens an object, {len(scenes)} scenes")
    for form in FORMS:
        print(f"  {form:6} " + "  ".join(f"{name} {counts[form]:6.2f}" for name, counts in report.items()))


if __name__ == "__main__":
    try:
        main()
    except GrandError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
