"""The dry run: what it finds wrong without any weights, and how it estimates tokens."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import warnings
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("accelerate")
pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors.torch")

from toy_run import config  # noqa: E402

from grand3d import plan as plans  # noqa: E402
from grand3d.adapter import wording  # noqa: E402
from grand3d.cli import main  # noqa: E402
from grand3d.config import dump_yaml, load_config  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.model import attach_lora, skeleton  # noqa: E402
from grand3d.plan import dry_run  # noqa: E402
from grand3d.sample import Sample  # noqa: E402
from grand3d.schema import PromptConfig  # noqa: E402
from grand3d.stream import open_stream  # noqa: E402
from grand3d.train import run_state, train  # noqa: E402
from grand3d.weights import smollm2_tokenizer  # noqa: E402

SETTINGS = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}


@pytest.fixture
def base(tmp_path):
    """A folder that looks like that of a base."""
    place = tmp_path / "base"
    shutil.copytree(smollm2_tokenizer(), place)
    sizes = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 100}
    (place / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": 4096} | sizes))
    safetensors.save_file({"a": torch.zeros(3)}, place / "model.safetensors")
    return place


@pytest.fixture
def adapter(tmp_path):
    """A folder that looks like that of a finished run."""
    place = tmp_path / "run" / "adapter"
    place.mkdir(parents=True)
    (place / "grand3d.json").write_text('{"base": "tiny", "prompt": {}}')
    (place / "adapter_config.json").write_text(json.dumps(SETTINGS))
    safetensors.save_file({"a": torch.zeros(3)}, place / "adapter_model.safetensors")
    return place.parent


@pytest.mark.parametrize("base", ["smolm2", "/absent/base", "./absent", "a/b/c"])
def test_dry_run_unknown_base_is_one_message_and_exit_2(toy_folder, tmp_path, capsys, base):
    (tmp_path / "run.yaml").write_text(dump_yaml(config(toy_folder, model__base=base)))
    assert main(["train", str(tmp_path / "run.yaml"), "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert f"base {base!r} was not found" in message
    assert ("did you mean 'smollm2'?" in message) == (base == "smolm2")


def test_dry_run_id_on_the_hub_is_said_to_be_not_checked(toy_folder):
    notes = dry_run(config(toy_folder, model__base="owner/name"))["notes"]
    assert any("'owner/name'" in note and "was not checked" in note for note in notes)
    assert not any("not checked" in note for note in dry_run(config(toy_folder))["notes"])


def test_dry_run_local_base_is_checked_without_its_weights(toy_folder, base):
    settings = config(toy_folder, model__base=str(base))
    assert dry_run(settings)["parameters"]["base"] > 0
    file = base / "config.json"
    file.write_text(file.read_text().replace('"hidden_size": 8', '"hidden_size": "8"'))
    with pytest.raises(GrandError, match="hidden_size"):
        dry_run(settings)
    file.write_text('{"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 0}')
    assert dry_run(settings)["parameters"] is None
    (base / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(GrandError, match=r"model.safetensors: is no whole safetensors file"):
        dry_run(settings)
    (base / "tokenizer.json").unlink()
    safetensors.save_file({"a": torch.zeros(3)}, base / "model.safetensors")
    with pytest.raises(GrandError, match=r"expected tokenizer\.json"):
        dry_run(settings)


SIZES = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
}


def test_dry_run_counts_heads_of_any_width_as_the_model_does(toy_folder, base):
    """Qwen 3 has heads wider than the hidden size shared among them."""
    row = SIZES | {"model_type": "qwen3", "head_dim": 32}
    (base / "config.json").write_text(json.dumps(row))
    with torch.device("meta"):
        model = skeleton(str(base))
        whole = sum(p.numel() for p in model.parameters())
        trained = sum(p.numel() for p in attach_lora(model, config(toy_folder).lora).parameters() if p.requires_grad)
    found = dry_run(config(toy_folder, model__base=str(base)))["parameters"]
    assert found["adapter"] == trained
    assert found["base"] == pytest.approx(whole, rel=1e-2)  # less the norms of the heads


def test_dry_run_makes_no_estimate_for_a_mixture_of_experts(toy_folder, base):
    for key in ("num_local_experts", "num_experts", "n_routed_experts"):
        (base / "config.json").write_text(json.dumps(SIZES | {"model_type": "mixtral", key: 8}))
        assert plans._shape(str(base)) is None
    (base / "config.json").write_text(json.dumps(SIZES | {"model_type": "llama"}))
    assert plans._shape(str(base)) is not None


def test_estimate_of_memory_tells_4_bits_new_tokens_and_masks(toy_folder):
    shape, tokens = plans.SHAPES["meta-llama/llama-2-7b-hf"], {"row": 20_000, "pack": 20_000, "sample": 1500, "label": 60}

    def memory(**changes):
        return plans._memory(shape, config(toy_folder, model__dtype="bf16", **changes), tokens, 1)

    plain = memory()
    assert plain["weights"] == pytest.approx(13.48, abs=0.02)
    assert memory(model__quantize="nf4")["weights"] == pytest.approx(3.9, abs=0.1)  # 6.5 G in 4 bits, 0.26 G as they are
    assert memory(model__attention="dense")["activations"] == pytest.approx(plain["activations"] + 0.4, abs=0.02)
    coord = replace(config(toy_folder, model__dtype="bf16"), prompt=PromptConfig(serializer="coord"))
    assert plans._memory(shape, coord, tokens, 1)["new tokens"] == pytest.approx(4 * 0.262, abs=0.01)
    assert "new tokens" not in plain


def test_dry_run_adapter_to_start_from_is_checked_without_its_weights(toy_folder, adapter):
    def settings(**changes):
        return config(toy_folder, lora__modules=["v_proj", "q_proj"], lora__start=str(adapter), **changes)

    dry_run(settings())
    with pytest.raises(GrandError, match=r"it has lora.rank 4, not 8; lora.alpha 8, not 3\.0"):
        dry_run(settings(lora__rank=8, lora__alpha=3))
    with pytest.raises(GrandError, match=r"model\.base 'tiny', not 'smollm2'"):
        dry_run(settings(model__base="smollm2"))
    (adapter / "adapter" / "adapter_model.safetensors").write_bytes(b"cut")
    with pytest.raises(GrandError, match=r"lora.start: .*adapter_model.safetensors: is no whole safetensors file"):
        dry_run(settings())
    shutil.rmtree(adapter)
    with pytest.raises(GrandError, match=r"lora.start: .*run: not an adapter folder \(no such folder\)"):
        dry_run(settings())


def test_dry_run_warns_of_an_adapter_that_learnt_from_other_texts(toy_folder, adapter, tmp_path):
    (tmp_path / "system.txt").write_text("Answer.")
    settings = config(toy_folder, lora__modules=["v_proj", "q_proj"], lora__start=str(adapter))
    file = adapter / "adapter" / "grand3d.json"
    for prompt, named in (
        ({"serializer": "grand"}, "prompt.serializer 'table', not 'grand'"),
        (
            {"grounding": "later", "refer_close": "<refer_expression>"},
            "prompt.grounding 'first', not 'later'; prompt.refer_close '.*', not '<refer_expression>'",
        ),
        ({"system": str(tmp_path / "system.txt")}, "prompt.system None, not 'Answer.'"),
    ):
        with pytest.warns(UserWarning, match=f"lora.start is .*: it has {named}$"):
            dry_run(replace(settings, prompt=replace(settings.prompt, **prompt)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file.write_text(json.dumps({"base": "tiny", "prompt": {"top_k": 3}, "wording": wording(settings.prompt)}))
        dry_run(settings)
        (adapter / "adapter" / "own.txt").write_text("Answer.")  # the same text at another place
        file.write_text(json.dumps({"base": "tiny", "prompt": {"system": "own.txt"}}))
        dry_run(replace(settings, prompt=replace(settings.prompt, system=str(tmp_path / "system.txt"))))
    file.write_text('{"base": "tiny", "prompt": {}, "wording": "0123"}')
    with pytest.warns(UserWarning, match=f"wording of prompts '0123', not '{wording(settings.prompt)}'"):
        dry_run(settings)


def test_dry_run_adapter_to_start_from_may_name_its_base_by_another_path(toy_folder, adapter, base, monkeypatch):
    (adapter / "adapter" / "grand3d.json").write_text(json.dumps({"base": str(base), "prompt": {}}))
    monkeypatch.chdir(base.parent)
    for name in ("base", "./base/", str(base)):
        dry_run(config(toy_folder, model__base=name, lora__modules=["v_proj", "q_proj"], lora__start=str(adapter)))


def test_dry_run_reads_held_out_data_as_training_does(toy_folder, tmp_path):
    heldout = shutil.copytree(toy_folder, tmp_path / "heldout")
    settings = config(toy_folder, data__heldout=str(heldout))
    with (heldout / "scenes.jsonl").open("a") as file:
        file.write("{broken\n")
    with pytest.raises(GrandError, match=r"heldout/scenes\.jsonl:3"):
        dry_run(settings)
    assert "left out of the held-out data: 1 x not JSON" in dry_run(settings, skip_bad=True)["notes"]
    (heldout / "samples.jsonl").write_text("")
    with pytest.raises(GrandError, match="holds no sample that can be scored"):
        dry_run(settings, skip_bad=True)
    shutil.rmtree(heldout)
    assert any("is not there yet" in note for note in dry_run(settings)["notes"])
    heldout.write_text("")
    with pytest.raises(GrandError, match="is a file, no data folder"):
        dry_run(settings)


def test_dry_run_missing_tracker_is_refused(toy_folder, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GrandError, match=r"train\.tracker is 'trackio', expected .* pip install trackio"):
        dry_run(config(toy_folder, train__tracker="trackio"))


@pytest.mark.parametrize(
    ("modules", "word"),
    [
        (["q_proj", "query"], "no layer is named 'query'"),
        ("query", "matches the whole name of no layer"),
        ("q_proj", "matches the whole name of no layer"),
        (["mlp"], "is not supported"),
    ],
)
def test_dry_run_names_of_no_layer_are_refused_without_weights(toy_folder, base, modules, word):
    for name in ("tiny", str(base)):
        with pytest.raises(GrandError, match=rf"lora\.modules is .*{word}.*expected all-linear.*: down_proj, .*q_proj"):
            dry_run(config(toy_folder, model__base=name, lora__modules=modules))


def test_dry_run_counts_the_layers_of_a_regular_expression(toy_folder, tiny_model):
    settings = config(toy_folder, lora__modules=r".*layers\.[01]\.self_attn\.[qv]_proj")
    model = attach_lora(tiny_model[0], settings.lora)
    assert dry_run(settings)["parameters"]["adapter"] == sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_dry_run_says_that_layers_were_not_compared(toy_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    notes = dry_run(config(toy_folder, model__base="owner/name", lora__modules="query"))["notes"]
    assert any("lora.modules was not compared with the layers of 'owner/name'" in note for note in notes)


def test_dry_run_prompts_that_are_too_short_or_too_long_are_refused(toy_folder):
    settings = config(toy_folder)
    for most, word in ((50, r"too long: \d+ tokens, prompt\.max_tokens is 50"), (9000, "expected at most the 8192 tokens")):
        with pytest.raises(GrandError, match=word):
            dry_run(replace(settings, prompt=replace(settings.prompt, max_tokens=most)))
    with pytest.raises(GrandError, match=r"hold nothing to learn from.* 7 x too long"):
        dry_run(replace(settings, prompt=replace(settings.prompt, max_tokens=50)), skip_bad=True)


def test_dry_run_samples_that_cannot_be_learnt_from_are_refused_or_counted(toy_folder):
    file = toy_folder / "samples.jsonl"
    file.write_text(file.read_text().replace('"No"', '"Perhaps"'))
    with pytest.raises(GrandError, match="Perhaps"):
        dry_run(config(toy_folder))
    assert "cannot be learnt from: 2 x no yes or no" in dry_run(config(toy_folder), skip_bad=True)["notes"]


def test_dry_run_checkpoint_to_go_on_from_is_checked_as_training_does(toy_folder, tmp_path):
    settings, out = config(toy_folder, train__num_steps=2), tmp_path / "run"
    with pytest.raises(GrandError, match=r"nonsense: not a checkpoint .* expected"):
        dry_run(settings, out=out, resume="nonsense")
    step = out / "checkpoints" / "step_1"
    step.mkdir(parents=True)
    state = {"step": 1, "files": {"x": {"size": 3, "sha256": ""}}} | run_state(settings, open_stream(settings), 1)
    (step / "state.json").write_text(json.dumps(state))
    with pytest.raises(GrandError, match="already holds a run; pass --resume latest"):
        dry_run(settings, out=out)
    with pytest.raises(GrandError, match=r"lora\.rank is 2, was 4"):
        dry_run(config(toy_folder, train__num_steps=2, lora__rank=2), out=out, resume="latest")
    with pytest.raises(GrandError, match=r"x: no such file\. The checkpoint step_1 is damaged"):
        dry_run(settings, out=out, resume="latest")
    (step / "x").write_bytes(b"abc")
    state["files"]["x"]["sha256"] = hashlib.sha256(b"abc").hexdigest()
    (step / "state.json").write_text(json.dumps(state))
    dry_run(settings, out=out, resume="latest")
    without = config(toy_folder, train__num_steps=2, lora__start="runs/gone")  # a checkpoint goes on without the start's adapter
    (step / "state.json").write_text(json.dumps(state | run_state(without, open_stream(without), 1)))
    dry_run(without, out=out, resume="latest")
    (out / "adapter").mkdir()
    (out / "adapter" / "grand3d.json").write_text("{}")
    (step / "state.json").write_text(json.dumps(state | {"step": 2, "files": {"gone": state["files"]["x"]}}))
    notes = dry_run(settings, out=out, resume="latest")["notes"]
    assert any("the run is finished, all 2 steps" in note for note in notes)


@pytest.mark.parametrize(
    ("name", "value"), [("dtype", "fp16"), ("attention", "flex"), ("quantize", "nf4"), ("liger", "on"), ("attention", "flash")]
)
def test_what_needs_a_gpu_is_a_note_of_the_dry_run_and_refused_by_training(toy_folder, tmp_path, monkeypatch, name, value):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    dtype = {"model__dtype": "bf16"} if value == "flash" else {}
    settings = config(toy_folder, **{f"model__{name}": value}, **dtype)
    (note,) = [note for note in dry_run(settings)["notes"] if "NVIDIA GPU" in note]
    assert note.startswith(f"model.{name} is '{value}'") and "expected" in note
    with pytest.raises(GrandError) as caught:
        train(settings, tmp_path / "run")
    assert str(caught.value) == note and not (tmp_path / "run").exists()


def test_dry_run_missing_adapter_to_start_from_names_what_would_make_it(root, tmp_path, monkeypatch, toy_folder):
    (tmp_path / "configs").mkdir()
    for name in ("smollm2", "smollm2_long"):
        shutil.copy(root / "configs" / f"{name}.yaml", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GrandError, match=r"train the adapter .* first: grand3d train configs/smollm2\.yaml --out runs/smollm2$"):
        dry_run(load_config("configs/smollm2_long.yaml"))
    with pytest.raises(GrandError, match=r"first: grand3d train CONFIG --out runs/mine$"):
        dry_run(config(toy_folder, lora__start="runs/mine"))


@pytest.mark.parametrize("resume", [None, "latest"])
def test_dry_run_refuses_a_foreign_configuration_in_the_folder_of_the_run(toy_folder, tmp_path, resume):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.yaml").write_text("theirs: 1\n")
    with pytest.raises(GrandError, match=r"config\.yaml: not of a run of this program"):
        dry_run(config(toy_folder), out=tmp_path / "out", resume=resume)


def test_dry_run_names_too_long_for_a_folder_are_no_traceback(toy_folder):
    settings = config(toy_folder, data__train=[{"path": "n" * 5000}])
    assert any("not there yet" in line for line in dry_run(settings)["data"])
    with pytest.raises(GrandError, match="too long"):
        dry_run(config(toy_folder, data__heldout="n" * 5000))


def test_estimate_shows_what_answers_name_as_training_does(toy_folder, toy_scene):
    settings = config(toy_folder)
    settings = replace(settings, prompt=replace(settings.prompt, top_k=1))
    short = Sample("a", "toy_room", "question", "What is there?", "A <p>rug</p>[].")
    long = replace(short, answer="A <p>rug</p>[<8>] and a <p>lamp</p>[<3>].")
    (less,), (more,) = (list(plans._characters(settings, [(toy_scene, [sample])])) for sample in (short, long))
    assert more[0] > less[0] + 10


def test_estimate_passes_over_samples_that_cannot_be_learnt(toy_folder, toy_scene):
    bad = Sample("a", "toy_room", "existence", "Is there a rug?", "Perhaps")
    good = replace(bad, sample_id="b", answer="Yes")
    assert [len(row[1]) for row in plans._characters(config(toy_folder), [(toy_scene, [bad, good]), (toy_scene, [bad])])] == [1]


def test_estimate_keeps_to_the_token_budget(toy_folder, toy_scene):
    settings = config(toy_folder)
    settings = replace(settings, prompt=replace(settings.prompt, max_tokens=60))
    sample = Sample("a", "toy_room", "existence", "Is there a rug?", "Yes")
    (row,) = plans._characters(settings, [(toy_scene, [sample])])
    assert row[0] + row[1][0] == pytest.approx(60)
