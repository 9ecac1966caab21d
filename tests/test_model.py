"""Bases, adapters and their folders."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from safetensors.torch import load_file  # noqa: E402

from grand3d.adapter import check_start  # noqa: E402
from grand3d.config import load_config  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.lora import fuse  # noqa: E402
from grand3d.model import attach_lora, load_adapter, load_base, merge, save_adapter, start_from, use_liger, wording  # noqa: E402
from grand3d.pack import make_pack, pack_loss  # noqa: E402
from grand3d.schema import Config, LoraConfig, ModelConfig, PromptConfig  # noqa: E402
from grand3d.tokens import Encoded  # noqa: E402

CONFIG = Config(model=ModelConfig(base="tiny"), lora=LoraConfig(rank=4, dropout=0.0))
PACK = make_pack([[Encoded([5, 6, 7], [8, 9], [False, True]), Encoded([5, 6, 7], [3, 4, 2], [False, True, True])]])
IDS = torch.tensor([[5, 6, 7, 8, 9]])


def learn(model, num_steps: int = 3) -> None:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(num_steps):
        pack_loss(model.train(), PACK, "split")[0].backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture
def adapted(tiny_model):
    torch.manual_seed(1)
    return attach_lora(tiny_model[0], CONFIG.lora)


def test_load_base_tiny_is_the_same_at_every_call_and_leaves_the_random_state(tiny_base):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    again, _ = load_base("tiny")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), tiny_base[0].parameters(), strict=True))
    assert not any(p.requires_grad for p in again.parameters())


@pytest.mark.parametrize("name", ["{}/absent", "smolm2", "a/b/c", "./x", "", "configs/tiny.yaml"])
def test_load_base_unknown_name_says_what_it_could_be(tmp_path, root, monkeypatch, name):
    monkeypatch.chdir(root)
    with pytest.raises(GrandError, match=r"was not found: .*'smollm2', 'tiny', a folder"):
        load_base(name.format(tmp_path))


@pytest.mark.slow
def test_load_base_smollm2_is_the_whole_model_and_answers(root):
    model, tokenizer = load_base("smollm2")
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True
    )
    out = model.generate(torch.tensor([ids["input_ids"]]), max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(out[0])


@pytest.mark.parametrize("modules", [("query",), "query", "[", ("",), ("q_proj", "query"), "q_proj", ("mlp",)])
def test_attach_lora_unknown_layer_names_the_known_ones(tiny_model, modules):
    with pytest.raises(GrandError, match=r"lora.modules is .*; expected all-linear, .*Linear layers of this base: .*q_proj, "):
        attach_lora(tiny_model[0], LoraConfig(modules=modules))


def test_attach_lora_takes_a_regular_expression_for_whole_names(tiny_model):
    model = attach_lora(tiny_model[0], LoraConfig(modules=r".*layers\.[01]\.self_attn\.[qv]_proj"))
    assert sum(name.endswith("lora_A.default.weight") for name, _ in model.named_parameters()) == 4


def test_attach_lora_all_linear_trains_only_the_adapter_in_single_precision(adapted):
    trained = {name for name, p in adapted.named_parameters() if p.requires_grad}
    assert len(trained) == 4 * 7 * 2
    assert all("lora_" in name for name in trained)
    assert not any("lm_head" in name for name in trained)


def test_fuse_outputs_and_gradients_equal_pefts_own_layer():
    torch.manual_seed(0)
    base = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.Tanh(), torch.nn.Linear(20, 7, bias=False)).requires_grad_(False)
    plain = peft.get_peft_model(base, peft.LoraConfig(r=3, lora_alpha=5, target_modules=["0", "2"])).double()
    for name, weight in plain.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    fused = copy.deepcopy(plain)
    assert fuse(fused) == 2
    x = torch.randn(2, 4, 12, dtype=torch.float64, requires_grad=True)
    results = []
    for model in (plain, fused):
        out = model(x)
        out.pow(2).sum().backward()
        results.append([out, x.grad.clone(), *(p.grad for p in model.parameters() if p.requires_grad)])
        x.grad = None
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    with fused.disable_adapter(), plain.disable_adapter():
        torch.testing.assert_close(fused(x), plain(x))


def test_fuse_leaves_layers_with_dropout_or_dora_alone(tiny_base):
    for settings in (LoraConfig(rank=2, dropout=0.1), LoraConfig(rank=2, dropout=0.0, kind="dora")):
        assert fuse(attach_lora(copy.deepcopy(tiny_base[0]), settings)) == 0


@pytest.mark.parametrize("checkpointing", [False, True])
def test_attach_lora_every_lora_b_moves_with_and_without_checkpointing(tiny_model, checkpointing):
    model = attach_lora(tiny_model[0], CONFIG.lora, checkpointing)
    learn(model)
    assert all(p.norm() > 0 for name, p in model.named_parameters() if "lora_B" in name)


def test_attach_lora_checkpointing_does_not_change_gradients(tiny_base):
    grads = []
    for checkpointing in (False, True):
        torch.manual_seed(1)
        model = attach_lora(copy.deepcopy(tiny_base[0]), CONFIG.lora, checkpointing).train()
        pack_loss(model, PACK, "split")[0].backward()
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad]))
    assert torch.equal(*grads)


def test_save_adapter_untrained_adapter_raises(adapted, tmp_path):
    with pytest.raises(GrandError, match=r"^the adapter changes nothing: 28 of 28 lora_B matrices are zero"):
        save_adapter(adapted, tmp_path / "adapter", CONFIG)
    assert not (tmp_path / "adapter").exists()


def test_save_adapter_partly_trained_adapter_is_saved_with_a_warning(adapted, tmp_path):
    learn(adapted)
    idle = next(weight for name, weight in adapted.named_parameters() if "lora_B" in name)
    torch.nn.init.zeros_(idle)
    with pytest.warns(UserWarning, match="1 of 28 lora_B matrices are zero"):
        save_adapter(adapted, tmp_path / "adapter", CONFIG)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()


def test_save_adapter_file_holds_every_tensor_at_full_size(adapted, tmp_path):
    learn(adapted)
    save_adapter(adapted, tmp_path / "adapter", CONFIG, {"accuracy": 12.5})
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    whole = peft.get_peft_model_state_dict(adapted)
    assert {name: value.shape for name, value in saved.items()} == {name: value.shape for name, value in whole.items()}
    assert all(value.dtype == torch.float16 for value in saved.values())
    assert "accuracy" in (tmp_path / "adapter" / "README.md").read_text()
    assert json.loads((tmp_path / "adapter" / "grand3d.json").read_text())["base"] == "tiny"


def test_load_adapter_gives_back_what_was_saved(adapted, tmp_path):
    learn(adapted)
    save_adapter(adapted, tmp_path / "adapter", CONFIG)
    expected = adapted.eval()(IDS).logits
    for folder in (tmp_path, tmp_path / "adapter"):
        for merged in (True, False):
            model, _, prompt = load_adapter(folder, merged)
            torch.testing.assert_close(model(IDS).logits, expected, rtol=1e-2, atol=1e-3)
            assert prompt == CONFIG.prompt
    plain = load_base("tiny")[0](IDS).logits
    assert (plain - expected).abs().max() > 0.05


def test_load_adapter_own_system_prompt_travels_with_it(adapted, tmp_path):
    learn(adapted, 1)
    (tmp_path / "system.txt").write_text("Be brief.")
    save_adapter(
        adapted, tmp_path / "adapter", Config(CONFIG.model, CONFIG.lora, PromptConfig(system=str(tmp_path / "system.txt")))
    )
    (tmp_path / "system.txt").unlink()
    prompt = load_adapter(tmp_path / "adapter")[2]
    assert Path(prompt.system).read_text() == "Be brief."


def test_load_adapter_trained_with_other_wording_warns(adapted, tmp_path):
    learn(adapted, 1)
    save_adapter(adapted, tmp_path / "adapter", CONFIG)
    file = tmp_path / "adapter" / "grand3d.json"
    file.write_text(file.read_text().replace(wording(CONFIG.prompt), "0" * 16))
    with pytest.warns(UserWarning, match="another wording"):
        load_adapter(tmp_path / "adapter")


def test_load_adapter_foreign_folder_raises(tmp_path):
    with pytest.raises(GrandError, match="not an adapter folder"):
        load_adapter(tmp_path)


def test_start_from_gives_exactly_the_weights_of_the_adapter(adapted, tiny_base, tmp_path):
    learn(adapted)
    save_adapter(adapted, tmp_path / "run" / "adapter", CONFIG)
    saved = load_file(tmp_path / "run" / "adapter" / "adapter_model.safetensors")
    for modules in ("all-linear", ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")):
        config = replace(CONFIG, lora=replace(CONFIG.lora, modules=modules))
        fresh = attach_lora(copy.deepcopy(tiny_base[0]), config.lora)
        start_from(fresh, tmp_path / "run", config)
        state = peft.get_peft_model_state_dict(fresh)
        assert state.keys() == saved.keys()
        assert all(torch.equal(value, saved[name].float()) for name, value in state.items())
        assert all(p.requires_grad for name, p in fresh.named_parameters() if "lora_" in name)
        learn(fresh, 1)
        assert not torch.equal(peft.get_peft_model_state_dict(fresh)[next(iter(saved))], saved[next(iter(saved))].float())


def test_start_from_shipped_adapter_fits_its_configuration(root):
    assert check_start("default", load_config(root / "configs" / "smollm2.yaml")).lora["r"] == 16


@pytest.mark.parametrize(
    ("settings", "base", "word"),
    [
        ({"rank": 8}, "tiny", "lora.rank 4, not 8"),
        ({"alpha": 1.0, "kind": "rslora"}, "tiny", "lora.alpha 32.0, not 1.0; lora.kind 'lora', not 'rslora'"),
        ({"kind": "dora"}, "tiny", "lora.kind 'lora', not 'dora'"),
        ({"modules": ("q_proj",)}, "tiny", r"lora.modules \['down_proj', .*, not \['q_proj'\]"),
        ({"modules": "q_proj"}, "tiny", r"lora.modules \['down_proj', .*, not 'q_proj'"),
        ({}, "smollm2", "model.base 'tiny', not 'smollm2'"),
    ],
)
def test_start_from_other_settings_raise_one_message(adapted, tmp_path, settings, base, word):
    learn(adapted, 1)
    save_adapter(adapted, tmp_path / "adapter", CONFIG)
    config = Config(ModelConfig(base=base), replace(CONFIG.lora, **settings))
    with pytest.raises(GrandError, match=f"lora.start is .*which this run cannot go on from: it has {word}"):
        start_from(adapted, tmp_path, config)


def test_start_from_adapter_of_fewer_layers_says_what_is_missing(tiny_base, tmp_path):
    config = replace(CONFIG, lora=replace(CONFIG.lora, modules=("q_proj", "o_proj")))
    model = attach_lora(copy.deepcopy(tiny_base[0]), config.lora)
    learn(model, 1)
    save_adapter(model, tmp_path / "adapter", config)
    with pytest.raises(
        GrandError, match=r"does not fit the layers of this base: 40 of 56 tensors differ \(first: .*missing, expected"
    ):
        start_from(attach_lora(copy.deepcopy(tiny_base[0]), CONFIG.lora), tmp_path, CONFIG)


def test_start_from_no_adapter_raises(adapted, tmp_path):
    with pytest.raises(GrandError, match=r"lora.start: .*not an adapter folder"):
        start_from(adapted, tmp_path / "absent", CONFIG)
    (tmp_path / "grand3d.json").write_text('{"base": ".", "prompt": {}}')
    with pytest.raises(GrandError, match=r"a merged model without an adapter; name it in model\.base"):
        start_from(adapted, tmp_path, CONFIG)


def test_merge_writes_a_base_that_needs_no_adapter(adapted, tmp_path):
    learn(adapted)
    save_adapter(adapted, tmp_path / "adapter", CONFIG)
    out = merge(tmp_path / "adapter", tmp_path / "merged")
    expected = load_adapter(tmp_path / "adapter")[0](IDS).logits
    torch.testing.assert_close(load_base(str(out))[0](IDS).logits, expected)
    torch.testing.assert_close(load_adapter(out)[0](IDS).logits, expected)
    with pytest.raises(GrandError, match="exists already"):
        merge(tmp_path / "adapter", out)
    assert all(file.stat().st_mode & 0o777 == 0o644 for file in out.iterdir())
    moved = out.rename(tmp_path / "moved")
    assert str(tmp_path) not in (moved / "grand3d.json").read_text()
    torch.testing.assert_close(load_adapter(moved)[0](IDS).logits, expected)


def test_wording_differs_where_the_prompt_differs():
    prompts = (
        PromptConfig(),
        PromptConfig(serializer="grand"),
        PromptConfig(grounding="none"),
        PromptConfig(refer_close="<refer_expression>"),
    )
    assert len({wording(prompt) for prompt in prompts}) == 4
    assert wording(PromptConfig()) == wording(PromptConfig(top_k=3))


def test_load_base_in_4_bits_without_a_gpu_names_the_way_out(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(GrandError, match="needs an NVIDIA GPU"):
        load_base("tiny", quantize="nf4")


def test_load_base_in_4_bits_without_bitsandbytes_names_the_pip_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(GrandError, match=r"grand3d\[qlora\]"):
        load_base("tiny", quantize="nf4")


def test_use_liger_takes_it_where_it_is_and_leaves_the_head_alone(monkeypatch, tiny_model):
    seen = []
    kernels = ModuleType("liger_kernel.transformers")
    kernels._apply_liger_kernel_to_instance = lambda model, **how: seen.append((model, how))
    assert not use_liger(tiny_model[0], "auto")  # no GPU
    with pytest.raises(GrandError, match="needs an NVIDIA GPU"):
        use_liger(tiny_model[0], "on")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not use_liger(tiny_model[0], "auto")
    with pytest.raises(GrandError, match=r"grand3d\[liger\]"):
        use_liger(tiny_model[0], "on")
    monkeypatch.setitem(sys.modules, "liger_kernel", ModuleType("liger_kernel"))
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", kernels)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert use_liger(tiny_model[0], "auto")
    assert not use_liger(tiny_model[0], "off")
    ((model, how),) = seen
    assert model is tiny_model[0]
    assert how == {"fused_linear_cross_entropy": False, "cross_entropy": False}


def test_load_base_with_fewer_layers_in_its_config_than_in_its_files_is_refused(tmp_path):
    model, tokenizer = load_base("tiny")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"num_hidden_layers": 4', '"num_hidden_layers": 2'))
    with pytest.raises(GrandError, match="num_hidden_layers"):
        load_base(str(tmp_path))
