"""The stream of packs, its encoding, and the dry run that measures it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from toy_run import config

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
for _name in ("transformers", "peft", "accelerate"):
    pytest.importorskip(_name)

from grand3d.config import from_dict, load_config  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.files import Rejects  # noqa: E402
from grand3d.plan import dry_run, plan  # noqa: E402
from grand3d.sample import Data, Sample, load_data, save_data  # noqa: E402
from grand3d.stream import Tally, encode_group, open_stream  # noqa: E402
from grand3d.synth import detect, iter_data, make_room, make_samples  # noqa: E402
from grand3d.tokens import decode  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent


def test_open_stream_every_epoch_takes_each_sample_once_whatever_the_number_of_processes(toy_folder):
    settings = config(toy_folder)
    stream = open_stream(settings)
    assert (stream.num_groups, stream.num_samples) == (4, 7)
    for epoch in range(3):
        seen = Counter(s.sample_id for i in range(4) for s in stream.group(4 * epoch + i)[1])
        assert seen == Counter(("r0", "r1", "e0", "e1", "r2", "e2", "e3"))
    taken = [[stream.group(i)[1] for i in range(rank, 6, 2)] for rank in range(2)]
    assert len(taken[0]) == len(taken[1]) == 3
    assert sorted(str(g) for rank in taken for g in rank) == sorted(str(stream.group(i)[1]) for i in range(6))


def test_open_stream_group_depends_on_its_number_only(toy_folder):
    first, second = open_stream(config(toy_folder)), open_stream(config(toy_folder))
    backwards = [second.group(i) for i in reversed(range(9))]
    assert [first.group(i) for i in range(9)] == backwards[::-1]
    other = open_stream(config(toy_folder, train__seed=1))
    assert [first.group(i) for i in range(9)] != [other.group(i) for i in range(9)]


def test_open_stream_weights_repeat_or_thin_out_a_source(toy_folder):
    raw = {"data": {"train": [{"path": str(toy_folder), "weight": 2.5}], "questions_per_scene": 4}, "train": {"global_batch": 4}}
    stream = open_stream(from_dict(raw))
    seen = Counter(s.sample_id for i in range(stream.num_groups) for s in stream.group(i)[1])
    assert set(seen.values()) <= {2, 3}
    assert 17 <= sum(seen.values()) <= 18


def test_open_stream_synth_is_made_by_number_and_starts_again_after_an_epoch():
    settings = from_dict(
        {"data": {"synth": {"num_scenes": 3, "seed": 4}, "questions_per_scene": 2}, "train": {"global_batch": 2}}
    )
    stream = open_stream(settings)
    assert stream.group(1) == stream.group(4)
    assert stream.group(1) != stream.group(2)
    assert 1 <= len(stream.group(0)[1]) <= 2


def test_open_stream_nothing_to_learn_from_raises(tmp_path, toy_scene):
    with pytest.raises(GrandError, match="nothing to learn from"):
        open_stream(from_dict({}))
    save_data(tmp_path / "empty", Data({"toy_room": toy_scene}, ()))
    with pytest.raises(GrandError, match="no sample to learn from"):
        open_stream(config(tmp_path / "empty"))


def test_open_stream_fingerprint_follows_the_data(toy_folder):
    before = open_stream(config(toy_folder)).fingerprint
    file = toy_folder / "samples.jsonl"
    file.write_text(file.read_text().replace("pillows", "cushions"))
    assert open_stream(config(toy_folder)).fingerprint != before


def test_encode_group_over_the_limit_drops_proposals_but_no_target(tiny_base, toy_proposals):
    tokenizer, prompt = tiny_base[1], from_dict({"prompt": {"max_tokens": 230}}).prompt
    samples = [Sample("x", "toy_room", "object_reference", "the <p>rug</p>[<p8>] by the <p>bed</p>[<p1>]", target_ids=("p8",))]
    tally = Tally()
    (encoded,) = encode_group(tokenizer, toy_proposals, samples, prompt, tally)
    (whole,) = encode_group(tokenizer, toy_proposals, samples, from_dict({}).prompt, Tally())
    assert len(whole) > 230
    assert len(encoded) <= 230
    scene = decode(tokenizer, encoded.prefix)
    assert "rug" in scene
    assert "pillow" not in scene
    assert tally.num_dropped > 0


def test_encode_group_sample_that_never_fits_is_named_or_counted(tiny_base, toy_proposals):
    tokenizer, prompt = tiny_base[1], from_dict({"prompt": {"max_tokens": 120}}).prompt
    samples = [
        Sample("long", "toy_room", "object_reference", "the <p>rug</p>[<p8>] " + "of old " * 50, target_ids=("p8",)),
        Sample("short", "toy_room", "existence", "A rug?", "Yes"),
    ]
    with pytest.raises(GrandError, match=r"sample 'long': too long: \d+ tokens, prompt.max_tokens is 120"):
        encode_group(tokenizer, toy_proposals, samples, prompt, Tally())
    tally = Tally(Rejects(skip_bad=True))
    assert [len(encode_group(tokenizer, toy_proposals, samples, prompt, tally)) for _ in range(2)] == [1, 1]
    assert tally.rejects.counts() == {"too long": 1}
    assert tally.rejects.rows[0]["row"]["sample_id"] == "long"


def test_encode_group_bad_answer_is_named_or_counted(tiny_base, toy_scene):
    samples = [Sample("odd", "toy_room", "existence", "A rug?", "Perhaps")]
    arguments = (tiny_base[1], toy_scene, samples, from_dict({}).prompt)
    with pytest.raises(GrandError, match="'odd'"):
        encode_group(*arguments, Tally())
    tally = Tally(Rejects(skip_bad=True))
    assert encode_group(*arguments, tally) == []
    assert len(tally.rejects.rows) == 1


def test_open_stream_folder_with_truth_is_refused(toy_folder, toy_scene, toy_proposals):
    data = load_data(toy_folder)
    truth = {"toy_room": toy_scene, "other": replace(toy_proposals, scene_id="other")}
    save_data(toy_folder, Data(data.scenes, data.samples, truth))
    with pytest.raises(GrandError, match=r"data: holds truth.jsonl, so its target ids are those of the true objects"):
        open_stream(config(toy_folder))


def test_open_stream_weight_that_leaves_an_epoch_without_a_sample_raises(toy_folder):
    with pytest.raises(GrandError, match=r"an epoch takes 0.0007 samples.*data: 0.0001"):
        open_stream(config(toy_folder, data__train=[{"path": str(toy_folder), "weight": 0.0001}]))
    thin = open_stream(config(toy_folder, data__train=[{"path": str(toy_folder), "weight": 0.2}]))
    assert all(thin.group(i)[1] for i in range(20))


def test_open_stream_synth_scenes_are_those_of_iter_data_whatever_the_seed_of_training():
    raw = {"data": {"synth": {"num_scenes": 2, "seed": 4}, "questions_per_scene": 3}, "train": {"global_batch": 3, "seed": 9}}
    stream = open_stream(from_dict(raw))
    expected = []
    for number in (4 * 1_000_003, 4 * 1_000_003 + 1):  # the rule the shipped adapter was trained by
        room = make_room(number)
        proposals, match = detect(room, number)
        expected.append((proposals, make_samples(room, proposals, match, number, 3)))
    assert [stream.group(i) for i in range(4)] == expected * 2
    assert list(iter_data(2, 4, 3)) == expected


def test_encode_group_objects_of_an_answer_are_shown_past_top_k(tiny_base, toy_proposals):
    tokenizer, prompt = tiny_base[1], from_dict({"prompt": {"top_k": 2}}).prompt
    answer = "The <p>rug</p>[<p8>]."
    samples = [Sample("q", "toy_room", "question", "What is on the floor?", answer)]
    (encoded,) = encode_group(tokenizer, toy_proposals, samples, prompt, Tally())
    shown = decode(tokenizer, encoded.prefix)
    assert "desk" in shown
    assert "rug" in shown
    assert "<p>rug</p>[<obj_1>]" in decode(tokenizer, encoded.suffix)


def test_encode_group_answer_that_names_an_unknown_object_is_refused_by_cause(tiny_base, toy_proposals):
    samples = [Sample(f"q{i}", "toy_room", "question", "What is there?", f"A <p>sofa</p>[<p9{i}>].") for i in range(2)]
    arguments = (tiny_base[1], toy_proposals, samples, from_dict({}).prompt)
    with pytest.raises(GrandError, match=r"sample 'q0': unknown id in the answer: \['p90'\]"):
        encode_group(*arguments, Tally())
    tally = Tally(Rejects(skip_bad=True))
    assert encode_group(*arguments, tally) == []
    assert tally.rejects.counts() == {"unknown id in the answer": 2}


def test_encode_group_phrases_whose_objects_are_not_shown_are_counted(tiny_base, toy_proposals):
    text = "the <p>rug</p>[<p8>] by the <p>bed</p>[<p1>], the <p>pillow</p>[<p6>] and <p>it</p>[]"
    samples = [Sample("x", "toy_room", "object_reference", text, target_ids=("p8",))]
    counts = []
    for top_k in (40, 2, 1):
        tally = Tally()
        encode_group(tiny_base[1], toy_proposals, samples, from_dict({"prompt": {"top_k": top_k}}).prompt, tally)
        counts.append(tally.num_empty)
    assert counts == [0, 2, 2]


def test_tally_refuse_keeps_the_cause_of_the_error():
    sample = Sample("a", "s", "existence", "A rug?", "Yes")
    tally = Tally(Rejects(skip_bad=True))
    tally.refuse(sample, "sample 'a': 3 of 7 are odd", "odd")
    tally.refuse(replace(sample, sample_id="b"), "too long: 900 tokens")
    assert tally.rejects.counts() == {"odd": 1, "too long": 1}


# --- the dry run


def test_dry_run_llama2_objref_says_what_the_run_would_do():
    settings = load_config(ROOT / "configs" / "llama2_7b_objref.yaml")
    found = dry_run(settings, num_processes=12)
    assert (found["scenes_per_process"], found["samples_per_step"], found["num_steps"]) == (1, 96, 10_000)
    assert found["parameters"] == {"base": 6_738_415_616, "adapter": 39_976_960}
    assert found["memory_gb"]["weights"] == pytest.approx(13.48, abs=0.01)
    assert found["tokens"]["how"].startswith("estimated")
    assert 1000 < found["tokens"]["scene"] < 2600
    text = plan(settings, num_processes=12)
    for word in ("batch", "accumulation", "steps", "tokens", "memory", "data/grand_objref"):
        assert word in text
    with pytest.raises(GrandError, match="cannot share evenly"):
        dry_run(settings, num_processes=7)


def test_dry_run_with_data_measures_it(toy_folder):
    found = dry_run(config(toy_folder))
    assert found["tokens"]["how"] == "measured"
    assert found["epochs"] == 3.0
    assert found["parameters"]["base"] == 49152 * 64 + 4 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64


def test_dry_run_adapter_size_is_that_of_the_real_adapter(toy_folder, tiny_model):
    from grand3d.model import attach_lora

    settings = config(toy_folder)
    model = attach_lora(tiny_model[0], settings.lora)
    assert dry_run(settings)["parameters"]["adapter"] == sum(p.numel() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("base", ["TinyLlama/TinyLlama-1.1B-Chat-v1.0", "HuggingFaceTB/SmolLM2-1.7B", "my/llama-2-7b-gqa"])
def test_dry_run_base_whose_name_only_contains_a_known_one_is_unknown(toy_folder, base):
    found = dry_run(config(toy_folder, model__base=base))
    assert found["parameters"] is None
    assert any("is not known here" in note for note in found["notes"])


def test_launch_files_are_read_by_accelerate():
    from accelerate.commands.config.config_args import load_config_from_file

    files = sorted((ROOT / "launch").glob("*.yaml"))
    assert {file.stem for file in files} >= {"one", "zero2", "zero2_cpu", "nodes"}
    for file in files:
        loaded = load_config_from_file(str(file))
        if file.stem != "one":
            assert loaded.distributed_type == "DEEPSPEED"
        assert f"launch/{file.name}" in file.read_text()
