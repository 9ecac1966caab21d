"""Bases on which a packed row is not what separate samples are: found before the first step, each in one message."""

from __future__ import annotations

import pytest
from toy_run import config

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("peft")

from grand3d.attention import ATTENTION  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.exactness import refuse_inexact, silence_dropout  # noqa: E402
from grand3d.model import DTYPES, load_tokenizer, skeleton  # noqa: E402
from grand3d.pack import make_pack, pack_loss  # noqa: E402
from grand3d.preflight import refuse_long_prompts  # noqa: E402
from grand3d.schema import Config, PromptConfig  # noqa: E402
from grand3d.tokens import Encoded  # noqa: E402
from grand3d.train import train  # noqa: E402

SIZES = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
EXPERTS = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LINEAR = {
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
SHORT = {"vocab_size": 97, "hidden_size": 64}


def build(name: str, dtype=torch.float32, **settings):
    """A random model with weights as large as trained ones; fresh ones hardly do anything."""
    torch.manual_seed(0)
    shape = getattr(transformers, f"{name}Config")(**settings)
    model = transformers.AutoModelForCausalLM.from_config(shape, attn_implementation=ATTENTION)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.15)
    return model.to(dtype).eval()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Llama", SIZES),
        ("Mixtral", SIZES | {"num_local_experts": 8, "num_hidden_layers": 8}),  # rounding changes the experts of some tokens
        ("GPT2", {"vocab_size": 97, "n_embd": 64, "n_layer": 2, "n_head": 4}),
        ("DeepseekV3", SIZES | LATENT | EXPERTS | {"num_key_value_heads": 4}),
        ("DiffLlama", SIZES),  # attends twice a layer
    ],
)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_exact_bases_pass_in_each_number_format(name, settings, dtype):
    model = build(name, DTYPES[dtype], **settings)
    for back_end in ("split", "dense"):
        refuse_inexact(model, back_end, dtype)


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("Qwen3_5Text", SIZES | LINEAR, r"'qwen3_5_text' attends to a packed row in 0 of its 2 layers"),
        ("Lfm2", SIZES | {"layer_types": ["conv", "full_attention"]}, "'lfm2' attends to a packed row in 1 of its 2 layers"),
        (
            "Jamba",  # recurrent layers, experts and attention
            SIZES | {"num_experts": 2, "use_mamba_kernels": False, "attn_layer_period": 2, "attn_layer_offset": 1},
            "'jamba' attends to a packed row in 1 of its 2 layers",
        ),
        (
            "FalconH1",  # each of its layers has both
            SIZES | {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 16},
            r"'falcon_h1' computes something else .* the logits differ by \d",
        ),
        ("Nemotron", SIZES, "'nemotron' attends to a packed row in 0 of its 2 layers"),
        (
            "Bloom",
            {"vocab_size": 97, "hidden_size": 64, "n_layer": 2, "n_head": 4},
            r"'bloom' cannot run a packed row with model\.attention 'split' \(ValueError: ",
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_bases_that_mix_tokens_in_another_way_are_refused(name, settings, word, dtype):
    with pytest.raises(GrandError, match=f"a base of type {word}.*expected one in which attention alone mixes tokens"):
        refuse_inexact(build(name, DTYPES[dtype], **settings), "split", dtype)


def test_a_layer_that_reads_the_placeholder_of_the_mask_gives_no_number():
    """Were it zeros, such a layer would attend to all tokens of the row, later ones too."""
    pack = make_pack([[Encoded([3, 4], [5, 6], [True, True])]])
    with torch.no_grad():
        assert not pack_loss(build("Nemotron", **SIZES), pack, "dense")[0].isfinite()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("OPT", {"ffn_dim": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "word_embed_proj_dim": 64} | SHORT),
        ("GPT2", {"vocab_size": 97, "n_embd": 64, "n_layer": 2, "n_head": 4}),
        ("Llama", SIZES | {"attention_dropout": 0.5}),
    ],
)
def test_dropout_of_a_base_is_switched_off(name, settings):
    """Whether it is a layer (GPT-2), a call (OPT) or the attention's (Llama)."""
    model = build(name, **settings).train()
    pack = make_pack([[Encoded([3, 4, 9], [5, 6, 7], [False, True, True])] * 2])
    silence_dropout(model)
    with torch.no_grad():
        losses = {pack_loss(model, pack, "split")[0].item() for _ in range(4)}
        assert losses == {pack_loss(model.eval(), pack, "split")[0].item()}


def folder_of(model, folder) -> str:
    model.save_pretrained(folder)
    load_tokenizer("tiny").save_pretrained(folder)
    return str(folder)


def test_training_on_an_inexact_base_stops_before_the_folder_is_touched(toy_folder, tmp_path):
    sizes = SIZES | {"vocab_size": len(load_tokenizer("tiny")), "max_position_embeddings": 4096}
    base = folder_of(build("Lfm2", **sizes, layer_types=["conv", "full_attention"]), tmp_path / "base")
    with pytest.raises(GrandError, match="'lfm2' attends to a packed row in 1 of its 2 layers"):
        train(config(toy_folder, model__base=base, lora__modules=["q_proj", "v_proj"]), tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()


LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("Mistral", {"sliding_window": 64}, "at most 64: .* has sliding_window = 64"),
        ("Gemma3Text", {"head_dim": 16, "sliding_window": 64}, "at most 64: .* has sliding_window = 64"),
        ("Qwen2", {"sliding_window": 64, "use_sliding_window": False}, ""),
        (
            "Qwen2",
            {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 0},
            "at most 64: .* has sliding_window = 64",
        ),
        ("Qwen2", {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 2}, ""),  # in layers from the third on
        ("Llama4Text", {"head_dim": 16, "attention_chunk_size": 64}, "at most 64: .* has attention_chunk_size = 64"),
        ("Llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}}, "at most the 512 tokens"),
        (
            "Phi3",
            {"rope_parameters": LONGROPE, "max_position_embeddings": 4096, "original_max_position_embeddings": 64},
            "at most 64: .* has rope_type = longrope, which changes after 64 tokens",
        ),
        ("Llama", {}, "at most the 512 tokens that are the context"),
    ],
)
def test_prompts_longer_than_packed_rows_are_exact_for_are_refused(name, settings, word):
    """Also where no layer says so in its forward pass: what changes with the row's longest sample is refused by configuration."""
    base = getattr(transformers, f"{name}Config")(**SIZES | settings)

    def check(max_tokens: int) -> None:
        refuse_long_prompts(Config(prompt=PromptConfig(max_tokens=max_tokens)), base)

    check(64)
    if not word:
        check(512)
        return
    with pytest.raises(GrandError, match=f"expected {word}"):
        check(65 if "64" in word else 513)


def test_a_base_with_a_table_of_attentions_of_its_own_is_refused_by_name(tmp_path):
    shape = transformers.FalconConfig(vocab_size=97, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, alibi=False)
    shape.save_pretrained(tmp_path / "falcon")
    with torch.device("meta"), pytest.raises(GrandError, match=r"base .* has attention of its own, .* expected a base by"):
        skeleton(str(tmp_path / "falcon"))
