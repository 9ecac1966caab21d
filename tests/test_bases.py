"""Families of base models, small and random, with their chat templates: trained, saved, loaded, merged, answered with."""

from __future__ import annotations

import pytest
from templates import CHATML, GEMMA, LLAMA2, LLAMA3

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from grand3d.attention import ATTENTION  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.generate import Decoding, ask  # noqa: E402
from grand3d.model import attach_lora, load_adapter, load_base, load_tokenizer, merge, save_adapter  # noqa: E402
from grand3d.pack import make_pack, pack_loss  # noqa: E402
from grand3d.schema import Config, LoraConfig, ModelConfig, PromptConfig  # noqa: E402
from grand3d.stream import Tally, encode_group  # noqa: E402
from grand3d.synth import make_data, make_scene  # noqa: E402

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
}
FAMILIES = {
    "llama2": (transformers.LlamaConfig, {"tie_word_embeddings": False}, LLAMA2, []),
    "llama3": (
        transformers.LlamaConfig,
        {"num_key_value_heads": 2, "tie_word_embeddings": False},
        LLAMA3,
        ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    ),
    "mistral": (
        transformers.MistralConfig,
        {"num_key_value_heads": 2, "sliding_window": None, "tie_word_embeddings": False},
        LLAMA2.replace("<<SYS>>\\n", "").replace("\\n<</SYS>>", ""),
        [],
    ),
    "qwen3": (transformers.Qwen3Config, {"num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True}, CHATML, []),
    "smollm2": (transformers.LlamaConfig, {"num_key_value_heads": 1, "tie_word_embeddings": True}, CHATML, []),
    "gemma": (
        transformers.GemmaConfig,
        {"num_key_value_heads": 1, "head_dim": 16, "tie_word_embeddings": True},
        GEMMA,
        ["<start_of_turn>", "<end_of_turn>"],
    ),
    "gemma3": (
        transformers.Gemma3TextConfig,
        {
            "num_key_value_heads": 2,
            "head_dim": 16,
            "sliding_window": 4096,
            "tie_word_embeddings": True,
            "query_pre_attn_scalar": 16,
        },
        GEMMA,
        ["<start_of_turn>", "<end_of_turn>"],
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def base(request, tmp_path_factory):
    """A folder with a small random model of the family."""
    make, more, template, special = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    tokenizer = load_tokenizer("tiny")
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    tokenizer.chat_template = template
    torch.manual_seed(0)
    shape = make(
        **SIZES, **more, vocab_size=len(tokenizer) + 64, pad_token_id=tokenizer.pad_token_id, attn_implementation=ATTENTION
    )
    model = transformers.AutoModelForCausalLM.from_config(shape, attn_implementation=ATTENTION)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def adapted(base: str):
    model, tokenizer = load_base(base)
    model = attach_lora(model, LoraConfig(rank=4, dropout=0.0)).train()
    torch.manual_seed(1)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.05)
    return model, tokenizer


def questions(tokenizer, index: int):
    scene, samples = make_scene(3, index, 3)
    return encode_group(tokenizer, scene, samples, PromptConfig(), Tally())


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])


def test_shared_prefix_of_each_family_equals_separate_samples(base):
    model, tokenizer = adapted(base)
    groups = [questions(tokenizer, 0), questions(tokenizer, 1)]
    total = 0.0
    for row in (row for group in groups for row in group):
        logits = model(input_ids=torch.tensor([row.prefix + row.suffix])).logits[0, :-1]
        labels = torch.tensor([-100] * len(row.prefix) + [t if m else -100 for t, m in zip(row.suffix, row.mask, strict=True)])
        loss = torch.nn.functional.cross_entropy(logits, labels[1:], reduction="sum")
        loss.backward()
        total += loss.item()
    expected = gradients(model)
    for back_end in ("split", "dense"):
        model.zero_grad()
        loss, _ = pack_loss(model, make_pack(groups), back_end)
        loss.backward()
        assert loss.item() == pytest.approx(total, rel=1e-5)
        assert (gradients(model) - expected).norm() <= 1e-5 * expected.norm(), back_end


def test_life_of_an_adapter_of_each_family(base, tmp_path):
    """Trained, saved, loaded, merged, gone on from, and asked."""
    config = Config(ModelConfig(base=base), LoraConfig(rank=4, dropout=0.0), PromptConfig())
    model, tokenizer = adapted(base)
    row = questions(tokenizer, 0)[0]
    ids = torch.tensor([row.prefix + row.suffix])
    save_adapter(model, tmp_path / "adapter", config)
    expected = model.eval()(ids).logits
    loaded = load_adapter(tmp_path / "adapter")[0]
    torch.testing.assert_close(loaded(ids).logits, expected, rtol=1e-2, atol=1e-2)
    merged = merge(tmp_path / "adapter", tmp_path / "merged")
    torch.testing.assert_close(load_base(str(merged))[0](ids).logits, loaded(ids).logits, rtol=1e-4, atol=1e-4)
    further, _ = adapted(str(merged))
    pack_loss(further, make_pack([[row]]), "split")[0].backward()
    assert gradients(further).norm() > 0
    data = make_data(1, 3, 3)
    replies = list(ask(loaded, tokenizer, PromptConfig(), data, data.samples, Decoding(4, constrained=False)))
    assert len(replies) == len(data.samples)


def test_a_base_that_caps_its_scores_is_refused():
    shape = transformers.Gemma2Config(
        **SIZES, num_key_value_heads=2, head_dim=16, vocab_size=99, sliding_window=4096, attn_implementation=ATTENTION
    )
    with pytest.raises(GrandError, match="caps its attention scores"):
        transformers.Gemma2ForCausalLM(shape)(torch.tensor([[1, 2, 3]]))


def test_a_base_that_sees_less_far_than_a_sample_is_long_is_refused():
    shape = transformers.MistralConfig(
        **SIZES, num_key_value_heads=2, vocab_size=49_200, sliding_window=16, attn_implementation=ATTENTION
    )
    model = transformers.MistralForCausalLM(shape)
    for back_end in ("split", "dense"):
        with pytest.raises(GrandError, match="sees 16 tokens back"):
            pack_loss(model, make_pack([questions(load_tokenizer("tiny"), 0)]), back_end)
