"""The stream of packs, the loop, checkpoints and what a run leaves behind."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
for _name in ("transformers", "peft", "accelerate"):
    pytest.importorskip(_name)

from safetensors.torch import load_file  # noqa: E402

from grand3d import checkpoint as checkpoints  # noqa: E402
from grand3d import train as training  # noqa: E402
from grand3d.config import Config, TrainConfig, from_dict, load_config, to_dict  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.files import Rejects  # noqa: E402
from grand3d.plan import dry_run, plan  # noqa: E402
from grand3d.sample import Data, Sample, save_data  # noqa: E402
from grand3d.stream import Tally, encode_group, open_stream  # noqa: E402
from grand3d.tokens import decode  # noqa: E402
from grand3d.train import learning_rate, micro_steps, train  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def one_base(tiny_model, monkeypatch):
    """Every run of a test starts from a copy of the one tiny model."""
    import copy

    model, tokenizer = tiny_model
    monkeypatch.setattr(training, "load_base", lambda *args: (copy.deepcopy(model), tokenizer))


@pytest.fixture
def folder(tmp_path, toy_scene, toy_proposals):
    """Seven samples of two scenes."""
    other = replace(toy_proposals, scene_id="other")
    samples = [
        Sample("r0", "toy_room", "object_reference", "the <p>office chair</p>[<1>] at the <p>desk</p>[<0>]", target_ids=("1",)),
        Sample("r1", "toy_room", "object_reference", "the <p>bed</p>[<4>]", target_ids=("4",)),
        Sample("e0", "toy_room", "existence", "Are there any pillows in the room?", "Yes", ("5", "6")),
        Sample("e1", "toy_room", "existence", "Is there a refrigerator in the room?", "No"),
        Sample("r2", "other", "object_reference", "a <p>lamp</p>[<p5>]", target_ids=("p5",)),
        Sample("e2", "other", "existence", "Is there a rug?", "Yes", ("p8",)),
        Sample("e3", "other", "existence", "Is there a sink?", "No"),
    ]
    save_data(tmp_path / "data", Data({"toy_room": toy_scene, "other": other}, tuple(samples)))
    return tmp_path / "data"


def config(folder, **changes) -> Config:
    raw = {
        "model": {"base": "tiny"},
        "lora": {"rank": 4, "alpha": 8, "dropout": 0.1},
        "data": {"train": [{"path": str(folder)}], "questions_per_scene": 2},
        "train": {"global_batch": 4, "learning_rate": 0.005, "num_steps": 6, "warmup_steps": 1, "save_every": 3},
    }
    for key, value in changes.items():
        section, name = key.split("__")
        raw[section][name] = value
    return from_dict(raw)


def log(out: Path, key: str = "loss") -> list:
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [row[key] for row in rows if key in row]


def adapter(out: Path) -> dict:
    return load_file(out / "adapter" / "adapter_model.safetensors")


def equal(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# --- the stream


def test_open_stream_f7_every_epoch_takes_each_sample_once_whatever_the_number_of_processes(folder):
    settings = config(folder)
    stream = open_stream(settings)
    assert (stream.num_groups, stream.num_samples) == (4, 7)
    for epoch in range(3):
        seen = Counter(s.sample_id for i in range(4) for s in stream.group(4 * epoch + i)[1])
        assert seen == Counter(("r0", "r1", "e0", "e1", "r2", "e2", "e3"))
    taken = [[stream.group(i)[1] for i in range(rank, 6, 2)] for rank in range(2)]
    assert len(taken[0]) == len(taken[1]) == 3
    assert sorted(str(g) for rank in taken for g in rank) == sorted(str(stream.group(i)[1]) for i in range(6))


def test_open_stream_group_depends_on_its_number_only(folder):
    first, second = open_stream(config(folder)), open_stream(config(folder))
    backwards = [second.group(i) for i in reversed(range(9))]
    assert [first.group(i) for i in range(9)] == backwards[::-1]
    other = open_stream(config(folder, train__seed=1))
    assert [first.group(i) for i in range(9)] != [other.group(i) for i in range(9)]


def test_open_stream_weights_repeat_or_thin_out_a_source(folder):
    raw = {"data": {"train": [{"path": str(folder), "weight": 2.5}], "questions_per_scene": 4}, "train": {"global_batch": 4}}
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


def test_open_stream_fingerprint_follows_the_data(folder):
    before = open_stream(config(folder)).fingerprint
    file = folder / "samples.jsonl"
    file.write_text(file.read_text().replace("pillows", "cushions"))
    assert open_stream(config(folder)).fingerprint != before


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


# --- the loop


def test_train_tiny_on_generated_rooms_loss_falls_and_leaves_a_whole_run(tmp_path):
    settings = load_config(
        ROOT / "configs" / "tiny.yaml", ["data.questions_per_scene=2", "train.global_batch=2", "train.num_steps=12"]
    )
    calls = []

    def evaluate(model, tokenizer):
        calls.append(model.training)
        return {"accuracy": float(len(calls))}

    out = tmp_path / "run"
    assert train(settings, out, evaluate=evaluate) == out / "adapter"
    losses = log(out)
    assert len(losses) == 12
    assert sum(losses[-3:]) < sum(losses[:3]) - 0.5
    assert load_config(out / "config.yaml") == settings
    assert log(out, "eval") == [{"accuracy": 1.0}, {"accuracy": 2.0}]
    assert calls == [False, False]
    assert json.loads((out / "adapter" / "grand3d.json").read_text())["metrics"] == {"accuracy": 2.0}
    assert log(out, "lr")[0] == pytest.approx(0.0025)
    assert all(count > 0 for count in log(out, "label_tokens") + log(out, "tokens_per_second"))
    assert [p.name for p in checkpoints.list_checkpoints(out)] == ["step_12"]


def test_train_resumed_repeats_the_run_bit_for_bit(folder, tmp_path):
    whole, half = tmp_path / "whole", tmp_path / "half"
    train(config(folder), whole)

    class Stop(Exception):
        pass

    def stop(model, tokenizer, calls=[]):  # noqa: B006
        calls.append(0)
        if len(calls) == 3:  # at the start, after step 2, after step 4
            raise Stop
        return {}

    with pytest.raises(Stop):
        train(config(folder, train__eval_every=2), half, evaluate=stop)
    assert len(log(half)) == 4
    train(config(folder), half, resume="latest")
    assert log(half) == log(whole)
    assert log(half, "grad_norm") == log(whole, "grad_norm")
    assert equal(adapter(half), adapter(whole))
    assert not equal({k: v * 0 for k, v in adapter(whole).items()}, adapter(whole))


def test_train_figures_do_not_change_the_run(folder, tmp_path):
    train(config(folder), tmp_path / "without")
    train(config(folder, train__eval_every=1), tmp_path / "with", evaluate=lambda *_: {"x": float(torch.rand(1))})
    assert log(tmp_path / "with") == log(tmp_path / "without")
    assert len(log(tmp_path / "with", "eval")) == 7


def test_train_f5_micro_steps_do_not_change_loss_and_gradient(folder, tmp_path):
    for name, questions in (("two", 4), ("four", 2)):  # packs of a step that takes all seven samples
        settings = config(
            folder, data__questions_per_scene=questions, train__global_batch=8, train__num_steps=1, lora__dropout=0.0
        )
        train(settings, tmp_path / name)
    two, four = tmp_path / "two", tmp_path / "four"
    assert log(two, "samples") == log(four, "samples") == [7]
    assert log(two, "label_tokens") == log(four, "label_tokens")
    assert log(two)[0] == pytest.approx(log(four)[0], rel=1e-6)
    assert log(two, "grad_norm")[0] == pytest.approx(log(four, "grad_norm")[0], rel=1e-5)


def test_train_prompt_longer_than_the_context_of_the_base_raises(folder, tmp_path):
    with pytest.raises(GrandError, match="the context of 'tiny' is 8192 tokens"):
        train(from_dict(to_dict(config(folder)) | {"prompt": {"max_tokens": 9000}}), tmp_path / "run")


def test_train_resume_with_changed_settings_is_refused_by_name(folder, tmp_path):
    out = tmp_path / "run"
    train(config(folder, train__num_steps=3), out)
    changed = config(folder, train__num_steps=4, lora__alpha=9, train__log_every=2, train__save_every=1)
    with pytest.raises(GrandError) as caught:
        train(changed, out, resume="latest")
    message = str(caught.value)
    assert "train.num_steps is 4, was 3" in message
    assert "lora.alpha is 9.0, was 8.0" in message
    assert "log_every" not in message
    file = folder / "samples.jsonl"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(GrandError, match="training data changed"):
        train(config(folder, train__num_steps=3), out, resume="latest")


def test_train_into_a_folder_that_holds_a_run_raises(folder, tmp_path):
    (tmp_path / "log.jsonl").write_text("{}\n")
    with pytest.raises(GrandError, match="already holds a run"):
        train(config(folder), tmp_path)
    with pytest.raises(GrandError, match="no checkpoint to resume from"):
        train(config(folder), tmp_path, resume="latest")
    with pytest.raises(GrandError, match="not a checkpoint"):
        train(config(folder), tmp_path, resume=str(tmp_path))


def test_train_scene_without_a_usable_sample_is_skipped_and_counted(folder, tmp_path, capsys):
    file = folder / "samples.jsonl"
    file.write_text(file.read_text().replace('"No"', '"Perhaps"'))
    settings = config(folder, data__questions_per_scene=1, train__global_batch=1, train__num_steps=7)
    with pytest.raises(GrandError, match="Perhaps"):
        train(settings, tmp_path / "strict")
    train(settings, tmp_path / "lenient", skip_bad=True)
    assert sorted(log(tmp_path / "lenient", "samples")) == [0, 0, 1, 1, 1, 1, 1]
    assert "left out: 2 x" in capsys.readouterr().err
    rejected = [json.loads(line) for line in (tmp_path / "lenient" / "data.rejected.jsonl").read_text().splitlines()]
    assert sorted(row["row"]["sample_id"] for row in rejected) == ["e1", "e3"]


def test_train_loss_that_is_not_finite_stops_with_a_word(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        training, "pack_loss", lambda model, pack, how: (sum(p.sum() for p in model.parameters()) * float("nan"), 1)
    )
    with pytest.raises(GrandError, match="step 1: the loss is nan"):
        train(config(folder), tmp_path / "run")


def test_train_unknown_tracker_package_names_the_pip_line(folder, tmp_path):
    try:
        import trackio  # noqa: F401
    except ImportError:
        with pytest.raises(GrandError, match="pip install trackio"):
            train(config(folder, train__tracker="trackio"), tmp_path / "run")
    else:
        pytest.skip("trackio is installed")


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("cosine", [0.5, 1.0, 1.0, 0.75, 0.25]), ("linear", [0.5, 1.0, 1.0, 2 / 3, 1 / 3]), ("constant", [0.5, 1.0, 1.0, 1.0, 1.0])],
)
def test_learning_rate_each_schedule_has_its_values(schedule, expected):
    settings = TrainConfig(learning_rate=1.0, num_steps=5, warmup_steps=2, schedule=schedule)
    assert [learning_rate(settings, step) for step in range(1, 6)] == pytest.approx(expected)


def test_micro_steps_groups_that_do_not_spread_evenly_raise(folder):
    assert micro_steps(config(folder, train__global_batch=12), 3) == 2
    with pytest.raises(GrandError, match="6 packs a step, which 4 processes"):
        micro_steps(config(folder, train__global_batch=12), 4)


# --- checkpoints


class FakeAccelerator(SimpleNamespace):
    """What ``save_checkpoint`` needs of one process of two."""

    def wait_for_everyone(self):
        pass

    def save_state(self, folder, **_):
        (Path(folder) / f"shard_{self.rank}").write_text("x")
        if self.fail:
            raise OSError("no space left")


def fake(rank: int = 0, fail: bool = False) -> FakeAccelerator:
    return FakeAccelerator(rank=rank, fail=fail, is_main_process=rank == 0, distributed_type=SimpleNamespace(value="NO"))


STATE = {"config": {}, "data": "x", "num_processes": 2}


def test_save_checkpoint_f9_only_the_main_process_renames_and_removes(tmp_path):
    for step in (1, 2):
        (tmp_path / "checkpoints" / f".step_{step}.part").mkdir(parents=True)
        checkpoints.save_checkpoint(fake(rank=1), tmp_path, step, STATE, keep=1)
        assert checkpoints.list_checkpoints(tmp_path) == ([] if step == 1 else [tmp_path / "checkpoints" / "step_1"])
        checkpoints.save_checkpoint(fake(), tmp_path, step, STATE, keep=1)
        assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == [f"step_{step}"]
    assert checkpoints.read_state(tmp_path / "checkpoints" / "step_2", STATE) == 2


def test_save_checkpoint_f9_interrupted_save_leaves_the_previous_one(tmp_path):
    checkpoints.save_checkpoint(fake(), tmp_path, 9, STATE, keep=1)
    with pytest.raises(OSError, match="no space"):
        checkpoints.save_checkpoint(fake(fail=True), tmp_path, 10, STATE, keep=1)
    assert checkpoints.find_checkpoint(tmp_path, "latest").name == "step_9"
    checkpoints.save_checkpoint(fake(), tmp_path, 10, STATE, keep=1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_10"]


def test_read_state_other_number_of_processes_raises(tmp_path):
    checkpoints.save_checkpoint(fake(), tmp_path, 1, STATE, keep=1)
    with pytest.raises(GrandError, match="there are 4 processes, there were 2"):
        checkpoints.read_state(tmp_path / "checkpoints" / "step_1", STATE | {"num_processes": 4})


# --- the dry run


def test_dry_run_llama2_objref_says_what_the_run_would_do():
    settings = load_config(ROOT / "configs" / "llama2_7b_objref.yaml")
    found = dry_run(settings, num_processes=12)
    assert (found["packs_per_process"], found["samples_per_step"], found["num_steps"]) == (1, 96, 10_000)
    assert found["parameters"] == {"base": 6_738_415_616, "adapter": 39_976_960}
    assert found["memory_gb"]["weights"] == pytest.approx(13.48, abs=0.01)
    assert found["tokens"]["how"].startswith("estimated")
    assert 1000 < found["tokens"]["scene"] < 2600
    text = plan(settings, num_processes=12)
    for word in ("batch", "accumulation", "steps", "tokens", "memory", "data/grand_objref"):
        assert word in text
    with pytest.raises(GrandError, match="cannot share evenly"):
        dry_run(settings, num_processes=7)


def test_dry_run_with_data_measures_it(folder):
    found = dry_run(config(folder))
    assert found["tokens"]["how"] == "measured"
    assert found["epochs"] == 3.0
    assert found["parameters"]["base"] == 49152 * 64 + 4 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64


def test_dry_run_adapter_size_is_that_of_the_real_adapter(folder, tiny_model):
    from grand3d.model import attach_lora

    settings = config(folder)
    model = attach_lora(tiny_model[0], settings.lora)
    assert dry_run(settings)["parameters"]["adapter"] == sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_launch_files_are_read_by_accelerate():
    from accelerate.commands.config.config_args import load_config_from_file

    files = sorted((ROOT / "launch").glob("*.yaml"))
    assert {file.stem for file in files} >= {"one", "zero2", "zero2_cpu", "nodes"}
    for file in files:
        loaded = load_config_from_file(str(file))
        if file.stem != "one":
            assert loaded.distributed_type == "DEEPSPEED"
        assert f"launch/{file.name}" in file.read_text()
