"""The loop, checkpoints and what a run leaves behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from toy_run import config, rows

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
for _name in ("transformers", "peft", "accelerate"):
    pytest.importorskip(_name)

from safetensors.torch import load_file  # noqa: E402

from grand3d import checkpoint as checkpoints  # noqa: E402
from grand3d import processes  # noqa: E402
from grand3d import train as training  # noqa: E402
from grand3d.config import from_dict, load_config, to_dict  # noqa: E402
from grand3d.embeddings import token_ids  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.model import attach_lora, load_base  # noqa: E402
from grand3d.processes import groups_per_process, open_accelerator  # noqa: E402
from grand3d.schema import TrainConfig  # noqa: E402
from grand3d.train import learning_rate, train  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def one_base(tiny_training_base):
    pass


def log(out: Path, key: str = "loss") -> list:
    return [row[key] for row in rows(out / "log.jsonl") if key in row]


def adapter(out: Path) -> dict:
    return load_file(out / "adapter" / "adapter_model.safetensors")


def equal(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


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


def test_train_resumed_repeats_the_run_bit_for_bit(toy_folder, tmp_path):
    whole, half = tmp_path / "whole", tmp_path / "half"
    train(config(toy_folder), whole)

    class Stop(Exception):
        pass

    def stop(model, tokenizer, calls=[]):  # noqa: B006
        calls.append(0)
        if len(calls) == 3:  # at the start, after step 2, after step 4
            raise Stop
        return {}

    with pytest.raises(Stop):
        train(config(toy_folder, train__eval_every=2), half, evaluate=stop)
    assert len(log(half)) == 4
    train(config(toy_folder), half, resume="latest")
    assert log(half) == log(whole)
    assert log(half, "grad_norm") == log(whole, "grad_norm")
    assert equal(adapter(half), adapter(whole))
    assert not equal({k: v * 0 for k, v in adapter(whole).items()}, adapter(whole))


def test_train_generated_scenes_that_come_again_are_said_once(tmp_path, capsys):
    changes = {"data__train": [], "data__synth": {"num_scenes": 3}, "train__num_steps": 4, "train__save_every": 0}
    train(config(tmp_path, **changes), tmp_path / "run")  # two scenes a step
    said = [line for line in capsys.readouterr().err.splitlines() if "come again" in line]
    assert said == ["step 2: from here on the 3 generated scenes come again, in the same order"]


def test_train_figures_do_not_change_the_run(toy_folder, tmp_path):
    train(config(toy_folder), tmp_path / "without")
    train(config(toy_folder, train__eval_every=1), tmp_path / "with", evaluate=lambda *_: {"x": float(torch.rand(1))})
    assert log(tmp_path / "with") == log(tmp_path / "without")
    assert len(log(tmp_path / "with", "eval")) == 7


def test_train_micro_steps_do_not_change_loss_and_gradient(toy_folder, tmp_path):
    for name, questions in (("two", 4), ("four", 2)):  # packs of a step that takes all seven samples
        settings = config(
            toy_folder, data__questions_per_scene=questions, train__global_batch=8, train__num_steps=1, lora__dropout=0.0
        )
        train(settings, tmp_path / name)
    two, four = tmp_path / "two", tmp_path / "four"
    assert log(two, "samples") == log(four, "samples") == [7]
    assert log(two, "label_tokens") == log(four, "label_tokens")
    assert log(two)[0] == pytest.approx(log(four)[0], rel=1e-6)
    assert log(two, "grad_norm")[0] == pytest.approx(log(four, "grad_norm")[0], rel=1e-5)


def test_train_prompt_longer_than_the_context_of_the_base_raises(toy_folder, tmp_path):
    with pytest.raises(GrandError, match="at most the 8192 tokens that are the context of 'tiny'"):
        train(from_dict(to_dict(config(toy_folder)) | {"prompt": {"max_tokens": 9000}}), tmp_path / "run")


def test_train_resume_with_changed_settings_is_refused_by_name(toy_folder, tmp_path):
    out = tmp_path / "run"
    train(config(toy_folder, train__num_steps=3), out)
    changed = config(toy_folder, train__num_steps=4, lora__alpha=9, train__log_every=2, train__save_every=1)
    with pytest.raises(GrandError) as caught:
        train(changed, out, resume="latest")
    message = str(caught.value)
    assert "train.num_steps is 4, was 3" in message
    assert "lora.alpha is 9.0, was 8.0" in message
    assert "log_every" not in message
    file = toy_folder / "samples.jsonl"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(GrandError, match="training data changed"):
        train(config(toy_folder, train__num_steps=3), out, resume="latest")


def test_train_into_a_folder_that_holds_a_run_raises(toy_folder, tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints" / "step_3").mkdir(parents=True)
    with pytest.raises(GrandError, match="already holds a run; pass --resume latest"):
        train(config(toy_folder), run)
    other = tmp_path / "other" / "checkpoints" / "step_1"
    other.mkdir(parents=True)
    with pytest.raises(GrandError, match="not a checkpoint"):
        train(config(toy_folder), run, resume=str(other))
    (other / "state.json").write_text("{}")
    with pytest.raises(GrandError, match="step_1 is a checkpoint of another"):
        train(config(toy_folder), run, resume=str(other))
    (tmp_path / "third" / "adapter").mkdir(parents=True)
    for resume in (None, "latest"):
        with pytest.raises(GrandError, match="holds a finished adapter and no checkpoint"):
            train(config(toy_folder), tmp_path / "third", resume=resume)


@pytest.mark.parametrize("resume", [None, "latest"])
def test_train_after_a_start_that_failed_starts_from_step_0(toy_folder, tmp_path, monkeypatch, capsys, resume):
    out, short = tmp_path / "run", config(toy_folder, train__num_steps=1)
    load = training.load_base

    def fail(*_):
        raise GrandError("no such base")

    monkeypatch.setattr(training, "load_base", fail)
    with pytest.raises(GrandError, match="no such base"):
        train(short, out, resume=resume)
    assert not (out / "log.jsonl").exists()
    monkeypatch.setattr(training, "load_base", load)
    out.mkdir(exist_ok=True)
    (out / "log.jsonl").write_text('{"step": 1, "loss": 9.0}\n')  # stopped before its first checkpoint
    train(short, out, resume=resume)
    said = capsys.readouterr().err
    assert "moved to log.old.jsonl" in said
    assert ("no checkpoint yet; the run starts from step 0" in said) == (resume == "latest")
    assert (out / "log.old.jsonl").read_text() == '{"step": 1, "loss": 9.0}\n'
    assert len(log(out)) == 1
    assert log(out)[0] != 9.0


def test_train_resumed_from_an_older_checkpoint_does_the_later_ones_again(toy_folder, tmp_path, capsys):
    out, settings = tmp_path / "run", config(toy_folder, train__num_steps=3, train__save_every=1, train__keep_checkpoints=3)
    train(settings, out)
    whole, losses = adapter(out), log(out)
    fewer = config(toy_folder, train__num_steps=3, train__save_every=1, train__keep_checkpoints=1)
    train(fewer, tmp_path / "new", resume=str(out / "checkpoints" / "step_1"))
    assert log(tmp_path / "new") == losses[1:]  # a new folder has no log of the steps before
    assert len(checkpoints.list_checkpoints(out)) == 3
    train(fewer, out, resume=str(out / "checkpoints" / "step_1"))
    assert "removed the checkpoints after step 1, which are done again: step_2, step_3" in capsys.readouterr().err
    assert log(out) == losses
    assert [path.name for path in checkpoints.list_checkpoints(out)] == ["step_3"]
    assert equal(adapter(out), whole)
    assert equal(adapter(tmp_path / "new"), whole)


def test_train_resume_of_a_finished_run_leaves_its_adapter(toy_folder, tmp_path, capsys):
    out, settings = tmp_path / "run", config(toy_folder, train__num_steps=1)
    train(settings, out, evaluate=lambda *_: {"x": 1.0})
    before = {path: path.read_bytes() for path in (out / "adapter").iterdir()} | {out: (out / "log.jsonl").read_bytes()}
    assert train(settings, out, resume="latest", evaluate=lambda *_: {"x": 2.0}) == out / "adapter"
    assert "the run is finished, all 1 steps" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (out / "adapter").iterdir()} | {out: (out / "log.jsonl").read_bytes()} == before
    shutil.rmtree(out / "adapter")  # stopped between its last checkpoint and the adapter
    train(settings, out, resume="latest", evaluate=lambda *_: {"x": 2.0})
    assert log(out, "eval") == [{"x": 1.0}, {"x": 1.0}]  # of the start and of the last step, once each
    assert json.loads((out / "adapter" / "grand3d.json").read_text())["metrics"] == {"x": 1.0}
    shutil.rmtree(out / "adapter")
    (out / "log.jsonl").unlink()
    train(settings, out, resume="latest", evaluate=lambda *_: {"x": 3.0})
    assert json.loads((out / "adapter" / "grand3d.json").read_text())["metrics"] == {"x": 3.0}


def test_train_from_another_adapter_resumes_bit_for_bit_without_it(toy_folder, tmp_path):
    first, whole, half = tmp_path / "first", tmp_path / "whole", tmp_path / "half"
    train(config(toy_folder, train__num_steps=1), first)
    settings = config(toy_folder, lora__start=str(first), train__num_steps=3, train__save_every=1, train__keep_checkpoints=3)
    train(settings, whole)
    shutil.copytree(whole / "checkpoints" / "step_1", half / "checkpoints" / "step_1")
    shutil.rmtree(first)
    train(settings, half, resume="latest")
    assert log(half) == log(whole)[1:]
    assert equal(adapter(half), adapter(whole))


def test_train_resumed_learns_in_training_mode(toy_folder, tmp_path, monkeypatch):
    out, settings = tmp_path / "run", config(toy_folder, train__num_steps=2, train__save_every=1, train__keep_checkpoints=2)
    train(settings, out)
    modes, loss = [], training.pack_loss
    monkeypatch.setattr(training, "pack_loss", lambda model, *rest: modes.append(model.training) or loss(model, *rest))
    train(settings, out, resume=str(out / "checkpoints" / "step_1"))
    assert modes == [True, True]


def test_train_phrases_learnt_as_empty_are_said_at_the_end(toy_folder, tmp_path, capsys):
    raw = to_dict(config(toy_folder, train__num_steps=1, train__global_batch=8)) | {"prompt": {"top_k": 1}}
    train(from_dict(raw), tmp_path / "run")
    assert "1 phrases of expressions name objects that were not shown" in capsys.readouterr().err


def test_accelerator_launched_waits_two_hours(toy_folder, tmp_path, monkeypatch):
    seen = []

    def accelerator(**settings):
        seen.append(settings["kwargs_handlers"])
        return SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=None), use_distributed=False)

    monkeypatch.setattr(processes, "Accelerator", accelerator)
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    open_accelerator(config(toy_folder), tmp_path)
    monkeypatch.setenv("LOCAL_RANK", "0")
    for gpu in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        open_accelerator(config(toy_folder), tmp_path)
    assert seen[0] == []
    assert [(h.backend, h.timeout.total_seconds()) for (h,) in seen[1:]] == [("gloo", 7200.0), ("nccl", 7200.0)]


def test_train_scene_without_a_usable_sample_is_skipped_and_counted(toy_folder, tmp_path, capsys):
    file = toy_folder / "samples.jsonl"
    file.write_text(file.read_text().replace('"No"', '"Perhaps"'))
    settings = config(toy_folder, data__questions_per_scene=1, train__global_batch=1, train__num_steps=7)
    with pytest.raises(GrandError, match="Perhaps"):
        train(settings, tmp_path / "strict")
    train(settings, tmp_path / "lenient", skip_bad=True)
    assert sorted(log(tmp_path / "lenient", "samples")) == [0, 0, 1, 1, 1, 1, 1]
    assert "left out: 2 x" in capsys.readouterr().err
    rejected = [json.loads(line) for line in (tmp_path / "lenient" / "data.rejected.jsonl").read_text().splitlines()]
    assert sorted(row["row"]["sample_id"] for row in rejected) == ["e1", "e3"]


def test_train_loss_that_is_not_finite_stops_with_a_word(toy_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        training, "pack_loss", lambda model, pack, how: (sum(p.sum() for p in model.parameters()) * float("nan"), 1)
    )
    steps = []
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda *_, **__: steps.append(1))
    with pytest.raises(GrandError, match="step 1: the loss is nan"):
        train(config(toy_folder), tmp_path / "run")
    assert not steps  # the weights are those before it


def test_train_stand_ins_for_rows_of_other_processes_change_nothing(toy_folder, tmp_path, monkeypatch):
    settings = config(toy_folder, lora__dropout=0, train__num_steps=2)
    train(settings, tmp_path / "alone")
    made = []
    monkeypatch.setattr(training, "largest", lambda accelerator, number: made.append(number) or number + 2)
    train(settings, tmp_path / "among")
    assert log(tmp_path / "among", "rows") == log(tmp_path / "alone", "rows") == made
    for key in ("loss", "grad_norm"):
        assert log(tmp_path / "among", key) == pytest.approx(log(tmp_path / "alone", key), rel=1e-5)


def test_weights_of_new_tokens_do_not_decay():
    base, tokenizer = load_base("tiny", serializer="coord")
    settings = from_dict({"lora": {"rank": 2}}).lora
    plain = training._parts(attach_lora(load_base("tiny")[0], settings), 0.1)
    assert [part["weight_decay"] for part in plain] == [0.1]
    model = attach_lora(base, settings, new_tokens=token_ids(tokenizer, "coord"))
    updates, tokens = training._parts(model, 0.1)
    assert (updates["weight_decay"], tokens["weight_decay"]) == (0.1, 0.0)
    assert sum(p.numel() for p in tokens["params"]) == 896 * 64
    assert len(updates["params"]) == len(plain[0]["params"])


def test_train_unknown_tracker_package_names_the_pip_line(toy_folder, tmp_path):
    try:
        import trackio  # noqa: F401
    except ImportError:
        with pytest.raises(GrandError, match="pip install trackio"):
            train(config(toy_folder, train__tracker="trackio"), tmp_path / "run")
    else:
        pytest.skip("trackio is installed")


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("cosine", [0.5, 1.0, 1.0, 0.75, 0.25]), ("linear", [0.5, 1.0, 1.0, 2 / 3, 1 / 3]), ("constant", [0.5, 1.0, 1.0, 1.0, 1.0])],
)
def test_learning_rate_each_schedule_has_its_values(schedule, expected):
    settings = TrainConfig(learning_rate=1.0, num_steps=5, warmup_steps=2, schedule=schedule)
    assert [learning_rate(settings, step) for step in range(1, 6)] == pytest.approx(expected)


def test_groups_per_process_groups_that_do_not_spread_evenly_raise(toy_folder):
    assert groups_per_process(config(toy_folder, train__global_batch=12), 3) == 2
    with pytest.raises(GrandError, match="6 scenes a step, which 4 processes"):
        groups_per_process(config(toy_folder, train__global_batch=12), 4)
