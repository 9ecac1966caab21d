"""Scores of texts against pycocoevalcap: its values on a small file, and itself where it is installed."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.textmetrics import _longest_common, bleu, bleu_counts, bleu_of, cider, meteor, ptb_tokens, rouge_l

WORDS = ("the", "a", "red", "brown", "chair", "table", "on", "near", "of", "left")
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=9)
CORPORA = st.lists(st.tuples(SENTENCES, st.lists(SENTENCES.filter(bool), min_size=1, max_size=3)), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def captions(golden: Callable[[str], Path]) -> dict[str, Any]:
    return json.loads(golden("qa/coco_caption_metrics.json").read_text())


@pytest.mark.parametrize("way", ["ptb", "raw"])
def test_golden_values_of_pycocoevalcap(captions: dict[str, Any], way: str) -> None:
    split = ptb_tokens if way == "ptb" else str.split
    keys = sorted(captions["gts"])
    answers = [split(captions["res"][k][0]) for k in keys]
    references = [[split(text) for text in captions["gts"][k]] for k in keys]
    expected = captions[way]
    assert bleu(answers, references) == pytest.approx([expected[f"Bleu_{n}"] for n in range(1, 5)], rel=1e-9)
    rouge = [rouge_l(a, r) for a, r in zip(answers, references, strict=True)]
    assert rouge == pytest.approx(expected["per_item"]["ROUGE_L"], abs=1e-12)
    assert cider(answers, references) == pytest.approx(expected["per_item"]["CIDEr"], abs=1e-9)
    assert cider(answers, references).mean() == pytest.approx(expected["CIDEr"], abs=1e-9)


def test_golden_tokens(captions: dict[str, Any]) -> None:
    for raw, tokenised in (("gts", "tokenised_gts"), ("res", "tokenised_res")):
        for key, texts in captions[raw].items():
            assert [" ".join(ptb_tokens(text)) for text in texts] == captions[tokenised][key]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It isn't John's (L-shaped) 3.5 m desk!", "it is n't john 's -lrb- l-shaped -rrb- 3.5 m desk"),
        ('You cannot see 12" of it... w/table; 50% & more', "you can not see 12 of it w/table 50 % & more"),
        ("``quoted'' -- and 'single'?", "quoted and single"),
        ("I''m here", "i m here"),
        ("", ""),
        (" . , ; ", ""),
    ],
)
def test_ptb_tokens(text: str, tokens: str) -> None:
    assert " ".join(ptb_tokens(text)) == tokens


def test_tokens_of_real_sentences_are_those_of_the_java_program(real: Callable[[str], Path], tmp_path: Path) -> None:
    module = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer", reason="pycocoevalcap is not installed")
    if shutil.which("java") is None:
        pytest.skip("the PTB tokenizer needs Java")
    rows = json.loads(real("scanrefer/val_descriptions_dev.json").read_text())
    texts = [row["description"] for row in rows] + [row["caption"] for row in json.loads(real("nr3d/val_dev.json").read_text())]
    questions = json.loads(real("sqa3d/v1_balanced_questions_test_scannetv2.json").read_text())["questions"]
    texts += [text for row in questions for text in (row["question"], row["situation"], *row["alternative_situation"])]
    table = real("vigil3d/vigil3d_scannet.csv").read_text(encoding="utf-8").splitlines()
    texts += [row["description"] for row in csv.DictReader(table)]
    for name in ("QA", "cap"):
        rows = json.loads(real(f"mmscan/example_{name}.json").read_text()).values()
        texts += [text for row in rows for text in (row["question"], *row["pred"], *row["gt"])]
    texts = [" ".join(text.split()) for text in texts]  # the Java program ends a sentence at a line break
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(texts))
    jar = Path(module.__file__).parent / module.STANFORD_CORENLP_3_4_1_JAR
    command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", str(file)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    removed = set(module.PUNCTUATIONS)
    wrong = [
        text
        for text, line in zip(texts, lines, strict=False)
        if ptb_tokens(text) != [token for token in line.split() if token not in removed]
    ]
    assert len(texts) > 23_000 and set(wrong) <= {text for text in texts if text.startswith("I'i had")}


@given(st.text(max_size=60))
def test_ptb_tokens_of_any_text_hold_no_blank(text: str) -> None:
    assert all(token and not any(c.isspace() for c in token) for token in ptb_tokens(text))


@given(CORPORA)
@settings(max_examples=60)
def test_scores_are_those_of_pycocoevalcap(corpus: Any) -> None:
    bleus = pytest.importorskip("pycocoevalcap.bleu.bleu", reason="pycocoevalcap is not installed")
    rouges = pytest.importorskip("pycocoevalcap.rouge.rouge")
    ciders = pytest.importorskip("pycocoevalcap.cider.cider")
    answers, references = [" ".join(a) for a, _ in corpus], [[" ".join(x) for x in r] for _, r in corpus]
    gts, res = dict(enumerate(references)), {k: [a] for k, a in enumerate(answers)}
    total, _ = bleus.Bleu(4).compute_score(gts, res, verbose=0)
    tokens = [a.split() for a in answers], [[x.split() for x in r] for r in references]
    assert bleu(*tokens) == pytest.approx(total, rel=1e-9, abs=1e-12)
    _, each = rouges.Rouge().compute_score(gts, res)
    ours = [rouge_l(a.split(), [x.split() for x in r]) for a, r in zip(answers, references, strict=True)]
    assert ours == pytest.approx(list(each), abs=1e-12)
    _, each = ciders.Cider().compute_score(gts, res)
    assert cider(*tokens) == pytest.approx(list(each), abs=1e-9)


@given(SENTENCES, SENTENCES)
def test_longest_common_subsequence_is_that_of_the_table(a: list[str], b: list[str]) -> None:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, token in enumerate(a):
        for j, other in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if token == other else max(table[i][j + 1], table[i + 1][j])
    assert _longest_common(a, b) == table[-1][-1]


def test_bleu_is_a_figure_of_sums() -> None:
    counts = [bleu_counts(["the", "red", "chair"], [["the", "chair"]]), bleu_counts(["a"], [["a"]])]
    assert bleu_of(np.array([sum(counts), counts[0]])).shape == (2, 4)
    assert bleu_of(sum(counts))[0] == pytest.approx(3 / 4)  # the red chair, a: three of four words


def test_cider_of_one_question_is_zero() -> None:
    assert cider([["a", "b"]], [[["a", "b"]]]).tolist() == [0.0]
    assert math.isclose(cider([["a"], ["b"]], [[["a"]], [["c"]]])[0], 2.5, abs_tol=1e-9)


@pytest.mark.slow
def test_meteor_by_its_java_program(captions: dict[str, Any]) -> None:
    keys = sorted(captions["gts"])
    found = meteor([ptb_tokens(captions["res"][k][0]) for k in keys], [[ptb_tokens(t) for t in captions["gts"][k]] for k in keys])
    if shutil.which("java") is None or found is None:
        pytest.skip("METEOR needs Java and pycocoevalcap")
    assert found[0] == pytest.approx(captions["ptb"]["METEOR"]) and found[1] == pytest.approx(
        captions["ptb"]["per_item"]["METEOR"]
    )


def test_meteor_is_unavailable_where_its_program_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap.meteor.meteor", reason="pycocoevalcap is not installed")
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert meteor([["a"]], [[["a"]]]) is None


def test_meteor_is_unavailable_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert meteor([["a"]], [[["a"]]]) is None
