"""Damaged folders of bases and adapters, and places that cannot be written: one message each, and nothing left behind."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
safetensors = pytest.importorskip("safetensors")

from damage import full_disk, full_disk_for_rust  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from grand3d import model as models  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.files import PART  # noqa: E402
from grand3d.model import attach_lora, load_adapter, load_base, load_tokenizer, merge, save_adapter  # noqa: E402
from grand3d.schema import Config, LoraConfig, ModelConfig, PromptConfig  # noqa: E402

CUT = "is no whole safetensors file"


@pytest.fixture(scope="module")
def whole_base(tiny_base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    for part in tiny_base:
        part.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def whole_adapter(tiny_base, tmp_path_factory):
    """An adapter of the tiny base, with a system prompt of its own."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "words.txt").write_text("Be brief.")
    model = attach_lora(copy.deepcopy(tiny_base[0]), LoraConfig(rank=2, dropout=0.0))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.ones_(weight)
    config = Config(ModelConfig(base="tiny"), LoraConfig(rank=2), PromptConfig(system=str(folder / "words.txt")))
    save_adapter(model, folder / "adapter", config)
    return folder / "adapter"


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """Looking on the hub would take half a minute without a network, and is wrong for a folder."""

    def refuse(*args, **kwargs):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("huggingface_hub.file_download._hf_hub_download_to_cache_dir", refuse)
    monkeypatch.setattr("peft.config.hf_hub_download", refuse)


def damaged(whole: Path, place: Path, name: str, content: bytes | str | int | None) -> Path:
    """A copy of a folder in which one file is replaced, cut to a number of bytes, or missing."""
    shutil.copytree(whole, place, copy_function=os.link)
    old = (place / name).read_bytes() if (place / name).exists() else b""
    (place / name).unlink(missing_ok=True)
    if content is not None:
        content = old[:content] if isinstance(content, int) else content
        (place / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def settings(**changes: object) -> str:
    """PEFT's settings of an adapter, with some of another value."""
    whole = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 32, "target_modules": ["q_proj"]}
    return json.dumps(whole | changes)


# --- bases


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("config.json", None, "config.json: no such file"),
        ("config.json", "{}", "has no model_type"),
        ("config.json", "[]", "expected a JSON object"),
        ("config.json", '{"a": ', "config.json: not JSON"),
        ("config.json", b"\xff\xfe{\x00", "UTF-16"),
        ("config.json", '{"model_type": "llama", "hidden_size": "x"}', "/config.json cannot be loaded: .*hidden_size"),
        ("config.json", '{"model_type": "lama"}', "/config.json cannot be loaded: .*lama"),
        ("model.safetensors", None, "holds neither model.safetensors nor"),
        ("model.safetensors", 0, CUT),
        ("model.safetensors", 1000, CUT),
        ("model.safetensors", 1_000_000, CUT),
        ("model.safetensors", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("tokenizer.json", None, "expected tokenizer.json or tokenizer.model in it"),
        ("tokenizer.json", 1000, "tokenizer.json is not JSON"),
        ("tokenizer.json", "{}", "the tokenizer of base .* cannot be loaded"),
        ("tokenizer.json", "[]", "the tokenizer of base .* cannot be loaded"),
        ("tokenizer.json", '{"version": "1.0", "model": 3}', "the tokenizer of base .* cannot be loaded"),
        ("tokenizer_config.json", 30, "tokenizer_config.json is not JSON"),
    ],
)
def test_load_base_damaged_folder_is_one_message(whole_base, tmp_path, name, content, word):
    folder = damaged(whole_base, tmp_path / "base", name, content)
    with pytest.raises(GrandError, match=f"{word}.*; was the folder copied whole"):
        load_base(str(folder))


@pytest.mark.parametrize(
    ("index", "word"),
    [
        ({"weight_map": {"a": "model-00001-of-00002.safetensors"}}, "model-00001-of-00002.safetensors: no such file"),
        ({"weight_map": []}, "has no weight_map"),
        ([], "expected a JSON object"),
    ],
)
def test_load_base_missing_shards_are_named(whole_base, tmp_path, index, word):
    folder = damaged(whole_base, tmp_path / "base", "model.safetensors", None)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(GrandError, match=word):
        load_base(str(folder))


@pytest.mark.parametrize("change", ["missing", "smaller"])
def test_load_base_weights_that_would_be_random_are_refused(whole_base, tmp_path, change):
    folder = damaged(whole_base, tmp_path / "base", "model.safetensors", None)
    tensors = load_file(whole_base / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    gone = tensors.pop(name)
    if change == "smaller":
        tensors[name] = gone[:5].contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(GrandError, match=f"1 of the model's tensors are missing in its files.*{name}"):
        load_base(str(folder))


def test_load_base_whole_folder_is_loaded(whole_base, tiny_base):
    loaded, _ = load_base(str(whole_base))
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), tiny_base[0].parameters(), strict=True))


def test_load_tokenizer_damaged_folder_is_one_message(whole_base, tmp_path):
    with pytest.raises(GrandError, match=r"base/config.json: not JSON.*; was the folder copied whole"):
        load_tokenizer(str(damaged(whole_base, tmp_path / "base", "config.json", '{"a":')))


@pytest.mark.parametrize(("name", "word"), [("x\0y", "NUL"), ("n" * 5000, "too long")])
def test_names_that_are_no_paths_are_one_message(name, word):
    for load in (load_base, load_tokenizer, load_adapter):
        with pytest.raises(GrandError, match=word):
            load(name)


def test_load_base_folder_of_an_adapter_says_what_it_is(whole_adapter):
    for folder in (whole_adapter, whole_adapter.parent):
        with pytest.raises(GrandError, match=r"the folder of an adapter, not of a base.*lora\.start"):
            load_base(str(folder))


# --- adapters


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("grand3d.json", "{}", "grand3d.json: base is missing"),
        ("grand3d.json", "[]", r"grand3d.json: is \[\], expected a JSON object"),
        ("grand3d.json", '{"base": "tiny"}', "grand3d.json: prompt is missing"),
        ("grand3d.json", '{"base": 3, "prompt": {}}', "base is 3, expected text"),
        ("grand3d.json", '{"base": "tiny", "prompt": []}', r"prompt is \[\], expected a JSON object"),
        ("grand3d.json", '{"base": "tiny", "prompt": {"top_k": 0}}', "grand3d.json: 1 fault.*\n.*prompt.top_k is 0"),
        (
            "grand3d.json",
            '{"base": "tiny", "prompt": {"system": "../x"}}',
            "prompt.system is '../x', expected the name of a file",
        ),
        ("grand3d.json", '{"base": "tiny", "prompt": {"system": 3}}', "prompt.system is 3"),
        ("grand3d.json", '{"base": "nowhere", "prompt": {}}', "grand3d.json: base 'nowhere' was not found"),
        ("grand3d.json", '{"base": ', "grand3d.json: not JSON"),
        ("adapter_config.json", None, "adapter_config.json: no such file"),
        ("adapter_config.json", 40, "adapter_config.json: not JSON"),
        ("adapter_config.json", "{}", "peft_type is None, expected 'LORA'"),
        ("adapter_config.json", '{"peft_type": "IA3"}', "peft_type is 'IA3', expected 'LORA'"),
        ("adapter_config.json", '{"peft_type": "LORA"}', "r is missing"),
        ("adapter_config.json", '{"peft_type": "LORA", "r": 2, "lora_alpha": NaN}', "lora_alpha is nan, expected a number"),
        ("adapter_config.json", settings(r=0), "adapter_config.json: r is 0, expected 1 up to 4,096"),
        ("adapter_config.json", settings(r="2"), "r is '2', expected a whole number"),
        ("adapter_config.json", settings(lora_alpha=1e308), r"lora_alpha is 1e\+308, expected more than 0 up to 1,000,000"),
        ("adapter_config.json", settings(lora_alpha=-5), r"lora_alpha is -5.0, expected more than 0"),
        ("adapter_config.json", settings(lora_dropout=7), "lora_dropout is 7.0, expected 0 up to, not including, 1"),
        ("adapter_config.json", settings(lora_dropout="0"), "lora_dropout is '0', expected a number"),
        ("adapter_config.json", settings(use_rslora="yes"), "use_rslora is 'yes', expected true or false"),
        ("adapter_config.json", settings(target_modules=3), "target_modules is 3, expected a list of texts"),
        ("adapter_config.json", settings(target_modules=[3]), r"target_modules is \[3\], expected a list of texts"),
        (
            "adapter_config.json",
            '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 32, "target_modules": ["x"]}',
            "cannot be loaded: Target modules",
        ),
        ("adapter_model.safetensors", None, "adapter_model.safetensors: no such file"),
        ("adapter_model.safetensors", 100, CUT),
        ("adapter_model.safetensors", 5000, CUT),
        ("system.txt", None, "system.txt: no such file"),
    ],
)
def test_load_adapter_damaged_folder_is_one_message(whole_adapter, tmp_path, name, content, word):
    folder = damaged(whole_adapter, tmp_path / "adapter", name, content)
    with pytest.raises(GrandError, match=word):
        load_adapter(folder)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda name, value: {}, r"1 of 56 tensors differ \(first: .*q_proj.lora_A.weight missing, expected \[2, 64\]"),
        (lambda name, value: {name: value[:1].clone()}, r"1 of 56 tensors differ \(first: .* \[1, 64\], expected \[2, 64\]"),
        (
            lambda name, value: {name: value, "more": value.clone()},
            r"1 of 57 tensors differ \(first: more \[2, 64\], expected none",
        ),
        (lambda name, value: {name: value * float("nan")}, "1 of 56 tensors hold numbers that are not finite"),
    ],
)
def test_load_adapter_tensors_that_do_not_fit_are_refused(whole_adapter, tmp_path, change, word):
    folder = damaged(whole_adapter, tmp_path / "adapter", "adapter_model.safetensors", None)
    tensors = load_file(whole_adapter / "adapter_model.safetensors")
    name = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"
    tensors |= change(name, tensors.pop(name))
    save_file(tensors, folder / "adapter_model.safetensors")
    with pytest.raises(GrandError, match=word):
        load_adapter(folder)


def test_load_adapter_whole_folder_is_loaded(whole_adapter):
    model, _, prompt = load_adapter(whole_adapter, merged=False)
    saved = load_file(whole_adapter / "adapter_model.safetensors")
    state = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    assert all(torch.equal(value, saved[name].float()) for name, value in state.items())
    assert not any(p.requires_grad for p in model.parameters())
    assert Path(prompt.system).read_text() == "Be brief."


def test_damaged_adapter_on_the_command_line_exits_with_2(whole_adapter, tmp_path, capsys):
    from grand3d.cli import main

    folder = damaged(whole_adapter, tmp_path / "adapter", "grand3d.json", "{}")
    assert main(["merge", str(folder), str(tmp_path / "out")]) == 2
    assert "grand3d.json: base is missing" in capsys.readouterr().err


# --- places that cannot be written


@pytest.mark.parametrize("fail", [full_disk, full_disk_for_rust])
def test_merge_on_a_full_disk_leaves_nothing(tiny_base, tmp_path, monkeypatch, fail):
    monkeypatch.setattr(models, "load_adapter", lambda folder: (*tiny_base, PromptConfig()))
    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", fail)
    with pytest.raises(GrandError, match=r"merged: cannot be written .*No space left"):
        merge("default", tmp_path / "merged")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fail", [full_disk, full_disk_for_rust])
def test_save_adapter_on_a_full_disk_keeps_the_old_one(whole_adapter, tiny_model, tmp_path, monkeypatch, fail):
    shutil.copytree(whole_adapter, tmp_path / "adapter")
    model = attach_lora(tiny_model[0], LoraConfig(rank=2))
    torch.nn.init.ones_(next(weight for name, weight in model.named_parameters() if "lora_B" in name))
    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with (
        pytest.warns(UserWarning, match="a part of the adapter changes nothing"),
        pytest.raises(GrandError, match=r"adapter: cannot be written .*No space left"),
    ):
        save_adapter(model, tmp_path / "adapter", Config())
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]
    assert (tmp_path / "adapter" / "grand3d.json").exists()


def test_save_adapter_leaves_a_folder_of_something_else_alone(tiny_model, tmp_path):
    model = attach_lora(tiny_model[0], LoraConfig(rank=2))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.ones_(weight)
    out = tmp_path / "thesis"
    out.mkdir()
    save_adapter(model, out, Config())  # an empty one
    save_adapter(model, out, Config())  # an adapter
    (out / "grand3d.json").unlink()
    (out / "chapter.txt").write_text("mine")
    with pytest.raises(GrandError, match=r"thesis: holds something else than an adapter"):
        save_adapter(model, out, Config())
    assert (out / "chapter.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


def test_merge_to_a_bad_place_is_found_before_the_weights_are_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "load_adapter", lambda folder: pytest.fail("loaded"))
    (tmp_path / "file").write_text("")
    for place, word in (("file/out", "a part of the path is a file"), ("x\0y", "NUL"), ("n" * 300, "too long")):
        with pytest.raises(GrandError, match=f"cannot be written.*{word}"):
            merge("default", tmp_path / place)
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(GrandError, match="exists already"):
        merge("default", tmp_path / "dangling")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


def test_merge_takes_nothing_from_what_a_killed_one_left(tiny_base, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "load_adapter", lambda folder: (*tiny_base, PromptConfig()))
    (tmp_path / f".merged.ab12cd_9{PART}").mkdir()
    (tmp_path / f".merged.ab12cd_9{PART}" / "stale.bin").write_text("old")
    out = merge("default", tmp_path / "merged")
    assert not (out / "stale.bin").exists()


@pytest.mark.parametrize(("name", "part"), [("tiny", "tokenizer.json"), ("smollm2", "model.safetensors")])
def test_incomplete_cached_folder_says_to_delete_it(whole_base, tmp_path, monkeypatch, name, part):
    folder = damaged(whole_base, tmp_path / "cached", part, 500)
    monkeypatch.setattr(models, "smollm2_folder", lambda: folder)
    monkeypatch.setattr(models, "smollm2_tokenizer", lambda: folder)
    with pytest.raises(GrandError, match=f"{part}.*; delete {folder}, it is made again"):
        load_base(name)
