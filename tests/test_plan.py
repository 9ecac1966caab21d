"""The dry run: what it finds wrong without any weights, and how it estimates tokens."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("accelerate")
pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors.torch")

from toy_run import config, save_toy_data  # noqa: E402

from grand3d import plan as plans  # noqa: E402
from grand3d.adapter import wording  # noqa: E402
from grand3d.cli import main  # noqa: E402
from grand3d.config import dump_yaml  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.plan import dry_run  # noqa: E402
from grand3d.sample import Sample  # noqa: E402
from grand3d.weights import smollm2_tokenizer  # noqa: E402

SETTINGS = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}


@pytest.fixture
def folder(tmp_path, toy_scene, toy_proposals):
    return save_toy_data(tmp_path / "data", toy_scene, toy_proposals)


@pytest.fixture
def base(tmp_path):
    """A folder that looks like that of a base."""
    place = tmp_path / "base"
    shutil.copytree(smollm2_tokenizer(), place)
    sizes = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 100}
    (place / "config.json").write_text(json.dumps({"model_type": "llama"} | sizes))
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
def test_dry_run_unknown_base_is_one_message_and_exit_2(folder, tmp_path, capsys, base):
    (tmp_path / "run.yaml").write_text(dump_yaml(config(folder, model__base=base)))
    assert main(["train", str(tmp_path / "run.yaml"), "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert f"base {base!r} was not found" in message
    assert ("did you mean 'smollm2'?" in message) == (base == "smolm2")


def test_dry_run_id_on_the_hub_is_said_to_be_not_checked(folder):
    notes = dry_run(config(folder, model__base="owner/name"))["notes"]
    assert any("'owner/name'" in note and "was not checked" in note for note in notes)
    assert not any("not checked" in note for note in dry_run(config(folder))["notes"])


def test_dry_run_local_base_is_checked_without_its_weights(folder, base):
    settings = config(folder, model__base=str(base))
    assert dry_run(settings)["parameters"]["base"] > 0
    file = base / "config.json"
    file.write_text(file.read_text().replace('"hidden_size": 8', '"hidden_size": "8"'))
    with pytest.raises(GrandError, match="hidden_size"):
        dry_run(settings)
    file.write_text('{"model_type": "llama", "vocab_size": 0}')
    assert dry_run(settings)["parameters"] is None
    (base / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(GrandError, match=r"model.safetensors: is no whole safetensors file"):
        dry_run(settings)
    (base / "tokenizer.json").unlink()
    safetensors.save_file({"a": torch.zeros(3)}, base / "model.safetensors")
    with pytest.raises(GrandError, match=r"expected tokenizer\.json"):
        dry_run(settings)


def test_dry_run_adapter_to_start_from_is_checked_without_its_weights(folder, adapter):
    def settings(**changes):
        return config(folder, lora__modules=["v_proj", "q_proj"], lora__start=str(adapter), **changes)

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


def test_dry_run_warns_of_an_adapter_that_learnt_from_other_texts(folder, adapter, tmp_path):
    (tmp_path / "system.txt").write_text("Answer.")
    settings = config(folder, lora__modules=["v_proj", "q_proj"], lora__start=str(adapter))
    file = adapter / "adapter" / "grand3d.json"
    for prompt, named in (
        ({"serializer": "grand"}, "prompt.serializer 'table', not 'grand'"),
        (
            {"grounding": "later", "refer_close": "<r>"},
            "prompt.grounding 'first', not 'later'; prompt.refer_close '.*', not '<r>'",
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


def test_dry_run_adapter_to_start_from_may_name_its_base_by_another_path(folder, adapter, base, monkeypatch):
    (adapter / "adapter" / "grand3d.json").write_text(json.dumps({"base": str(base), "prompt": {}}))
    monkeypatch.chdir(base.parent)
    for name in ("base", "./base/", str(base)):
        dry_run(config(folder, model__base=name, lora__modules=["v_proj", "q_proj"], lora__start=str(adapter)))


def test_dry_run_reads_held_out_data_as_training_does(folder, tmp_path):
    heldout = shutil.copytree(folder, tmp_path / "heldout")
    settings = config(folder, data__heldout=str(heldout))
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


@pytest.mark.parametrize("resume", [None, "latest"])
def test_dry_run_refuses_a_foreign_configuration_in_the_folder_of_the_run(folder, tmp_path, resume):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.yaml").write_text("theirs: 1\n")
    with pytest.raises(GrandError, match=r"config\.yaml: not of a run of this program"):
        dry_run(config(folder), out=tmp_path / "out", resume=resume)


def test_dry_run_names_too_long_for_a_folder_are_no_traceback(folder):
    settings = config(folder, data__train=[{"path": "n" * 5000}])
    assert any("not there yet" in line for line in dry_run(settings)["data"])
    with pytest.raises(GrandError, match="too long"):
        dry_run(config(folder, data__heldout="n" * 5000))


def test_estimate_shows_what_answers_name_as_training_does(folder, toy_scene):
    settings = config(folder)
    settings = replace(settings, prompt=replace(settings.prompt, top_k=1))
    short = Sample("a", "toy_room", "question", "What is there?", "A <p>rug</p>[].")
    long = replace(short, answer="A <p>rug</p>[<8>] and a <p>lamp</p>[<3>].")
    (less,), (more,) = (list(plans._characters(settings, [(toy_scene, [sample])])) for sample in (short, long))
    assert more[0] > less[0] + 10


def test_estimate_passes_over_samples_that_cannot_be_learnt(folder, toy_scene):
    bad = Sample("a", "toy_room", "existence", "Is there a rug?", "Perhaps")
    good = replace(bad, sample_id="b", answer="Yes")
    assert [len(row[1]) for row in plans._characters(config(folder), [(toy_scene, [bad, good]), (toy_scene, [bad])])] == [1]


def test_estimate_keeps_to_the_token_budget(folder, toy_scene):
    settings = config(folder)
    settings = replace(settings, prompt=replace(settings.prompt, max_tokens=60))
    sample = Sample("a", "toy_room", "existence", "Is there a rug?", "Yes")
    (row,) = plans._characters(settings, [(toy_scene, [sample])])
    assert row[0] + row[1][0] == pytest.approx(60)
