"""The tokens of the scene text ``coord``: added, trained, saved, loaded, merged, with tied and untied heads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from grand3d.attention import ATTENTION  # noqa: E402
from grand3d.embeddings import token_ids  # noqa: E402
from grand3d.generate import Decoding, ask  # noqa: E402
from grand3d.model import attach_lora, load_adapter, load_base, load_tokenizer, merge, save_adapter, start_from  # noqa: E402
from grand3d.pack import make_pack, pack_loss  # noqa: E402
from grand3d.prompts import dialogue  # noqa: E402
from grand3d.scene import Object, Scene  # noqa: E402
from grand3d.schema import Config, LoraConfig, ModelConfig, PromptConfig  # noqa: E402
from grand3d.serial import FORMS, added_tokens, fit_scene, read_scene, write_scene  # noqa: E402
from grand3d.stream import Tally, encode_group  # noqa: E402
from grand3d.synth import make_data, make_scene  # noqa: E402
from grand3d.tokens import decode, encode  # noqa: E402

PROMPT = PromptConfig(serializer="coord")


@pytest.fixture(scope="module", params=["tied", "untied"])
def base(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    tokenizer = load_tokenizer("tiny")
    shape = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=request.param == "tied",
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def trained(base: str, steps: int = 2):
    """A model with an adapter after some steps of plain gradient descent, its config, and a batch."""
    config = Config(ModelConfig(base=base), LoraConfig(rank=4, dropout=0.0), PROMPT)
    model, tokenizer = load_base(base, serializer="coord")
    torch.manual_seed(1)
    model = attach_lora(model, config.lora, new_tokens=token_ids(tokenizer, "coord")).train()
    scene, samples = make_scene(3, 0, 4)
    pack = make_pack([encode_group(tokenizer, scene, samples, PROMPT, Tally())])
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.02)
    for _ in range(steps):
        loss, _ = pack_loss(model, pack, "split")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, tokenizer, config, pack


def rows(model, ids):
    return model.get_input_embeddings()(torch.tensor(ids)).detach().clone()


def test_load_base_coord_every_word_is_one_token_that_starts_as_the_mean_of_its_digits(base):
    model, tokenizer = load_base(base, serializer="coord")
    again, _ = load_base(base, serializer="coord")
    ids = token_ids(tokenizer, "coord")
    assert len(set(ids)) == len(added_tokens("coord"))
    assert min(ids) >= len(load_tokenizer(base))
    assert torch.equal(rows(model, ids), rows(again, ids))
    digits = tokenizer.encode("12", add_special_tokens=False)
    for word in ("<obj_12>", "<c_12>"):
        torch.testing.assert_close(rows(model, tokenizer.convert_tokens_to_ids([word]))[0], rows(model, digits).mean(0))
    head = model.get_output_embeddings().weight
    assert head.shape[0] >= len(tokenizer)
    torch.testing.assert_close(head[tokenizer.convert_tokens_to_ids("<c_12>")], head[digits].mean(0))


def test_scene_text_and_reply_in_coord_tokens_come_back_as_text(base):
    tokenizer = load_tokenizer(base, serializer="coord")
    text = write_scene(make_scene(3, 0, 1)[0], "coord").text
    reply = "<p>the chair</p>[<obj_3>, <obj_12>]"
    for words in (text, reply):
        ids = tokenizer.encode(words, add_special_tokens=False)
        assert decode(tokenizer, ids) == words
    assert tokenizer.encode("<obj_3>", add_special_tokens=False) == [tokenizer.convert_tokens_to_ids("<obj_3>")]
    assert tokenizer.encode("<c_600>", add_special_tokens=False) != [tokenizer.unk_token_id]


def test_coord_tokens_are_trained_and_no_others(base):
    before, tokenizer = load_base(base, serializer="coord")
    model, *_ = trained(base)
    ids = token_ids(tokenizer, "coord")
    old = list(range(len(load_tokenizer(base))))
    assert torch.equal(rows(model, old), rows(before, old))
    moved = (rows(model, ids) != rows(before, ids)).any(1)
    assert moved.sum() > 10
    names = {n.rpartition(".")[2] for n, p in model.named_parameters() if p.requires_grad and "lora" not in n}
    assert all("trainable_tokens" in n for n, p in model.named_parameters() if p.requires_grad and "lora" not in n), names


def test_coord_tokens_live_through_saving_loading_merging_and_going_on(base, tmp_path):
    model, tokenizer, config, pack = trained(base)
    save_adapter(model, tmp_path / "adapter", config)
    expected = pack_loss(model.eval(), pack, "split")[0].item()
    untrained = load_base(base, serializer="coord")[0]
    assert pack_loss(untrained, pack, "split")[0].item() > expected + 0.5
    plain, _, prompt = load_adapter(tmp_path / "adapter", merged=False)
    whole, known, _ = load_adapter(tmp_path / "adapter")
    assert prompt.serializer == "coord"
    assert known.get_vocab() == tokenizer.get_vocab()
    for loaded in (plain, whole):
        assert pack_loss(loaded, pack, "split")[0].item() == pytest.approx(expected, rel=1e-2)
    folder = merge(tmp_path / "adapter", tmp_path / "merged")
    merged, tokens, _ = load_adapter(folder)
    assert len(tokens) == len(tokenizer)
    assert pack_loss(merged, pack, "split")[0].item() == pytest.approx(pack_loss(whole, pack, "split")[0].item(), rel=1e-4)
    further, tokens = load_base(str(folder), serializer="coord")
    assert torch.equal(rows(further, token_ids(tokens, "coord")), rows(merged, token_ids(tokens, "coord")))
    fresh = attach_lora(load_base(base, serializer="coord")[0], config.lora, new_tokens=token_ids(tokens, "coord"))
    start_from(fresh, tmp_path / "adapter", config)
    assert pack_loss(fresh.eval(), pack, "split")[0].item() == pytest.approx(expected, rel=1e-2)


def test_shared_prefix_with_coord_tokens_equals_separate_samples(base):
    model, tokenizer, _, _ = trained(base, 1)
    scene, samples = make_scene(3, 1, 3)
    group = encode_group(tokenizer, scene, samples, PROMPT, Tally())

    def learn(packs):
        model.zero_grad()
        loss = sum(pack_loss(model, pack, "split")[0] for pack in packs)
        loss.backward()
        return loss.item(), torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])

    loss, grads = learn([make_pack([group])])
    expected_loss, expected = learn([make_pack([[row]]) for row in group])
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert (grads - expected).norm() <= 1e-5 * expected.norm()


def test_ask_in_coord_tokens_answers_every_question(base):
    model, tokenizer = load_base(base, serializer="coord")
    data = make_data(1, 3, 4)
    replies = list(ask(model, tokenizer, PROMPT, data, data.samples, Decoding(60)))
    assert {reply.sample_id for reply in replies} == {sample.sample_id for sample in data.samples}
    assert model.config._attn_implementation == ATTENTION


@pytest.mark.parametrize(("form", "limit"), [("coord", 2048), ("table", 4096)])
def test_100_objects_with_system_question_and_120_answer_tokens_fit(form, limit):
    tokenizer = load_tokenizer("tiny", serializer=form)
    rooms = [make_scene(3, index, 1) for index in range(20)]
    objects = [item for scene, _ in rooms for item in scene.objects][:100]
    objects = [replace(item, object_id=str(number)) for number, item in enumerate(objects)]
    text = write_scene(Scene("large", tuple(objects)), form)
    assert len(text.object_ids) + len(text.same) == 100
    longest = 0
    for _, (sample, *_) in rooms:
        sample = replace(sample, target_ids=(), answer="") if sample.task == "object_reference" else sample
        if sample.task in ("object_reference", "existence"):
            talk = dialogue(sample, text, PromptConfig(serializer=form, top_k=100), with_answer=False)
            longest = max(longest, len(encode(tokenizer, talk)))
    assert 0 < longest + 120 <= limit


def test_real_proposals_take_at_most_25_tokens_an_object_as_table_and_9_with_coordinate_tokens(
    real: Callable[[str], Path], tmp_path: Path
) -> None:
    """Counted with a 32,000-piece sentencepiece model of Llama's kind; the same scenes take 60 in the form ``grand``."""
    transformers, mistral = pytest.importorskip("transformers"), pytest.importorskip("mistral_common")
    shutil.copy(Path(mistral.__file__).parent / "data" / "tokenizer.model.v1", tmp_path / "tokenizer.model")
    tokenizer = transformers.LlamaTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens([transformers.AddedToken(word, normalized=False, special=False) for word in added_tokens("coord")])
    rows = json.loads(real("mask3d/scannet_val_proposals.json").read_text("utf-8"))
    tokens, shown = dict.fromkeys(FORMS, 0), dict.fromkeys(FORMS, 0)
    for scene_id, graph in rows.items():
        found = (Object(k, r["category"], tuple(r["centroid"]), tuple(r["extent"]), score=r["score"]) for k, r in graph.items())
        scene = Scene(scene_id, tuple(found))
        for form in FORMS:
            fitted = fit_scene(scene, form)
            assert len(read_scene(fitted.text, form).objects) == len(fitted.object_ids)
            tokens[form] += len(tokenizer.encode(fitted.text, add_special_tokens=False))
            shown[form] += len(fitted.object_ids)
    assert tokens["table"] / shown["table"] < 25
    assert tokens["coord"] / shown["coord"] < 9
    assert tokens["grand"] / shown["grand"] > 55
