"""A pack of K questions must teach exactly what K separate samples teach."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from grand3d.attention import ATTENTION  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.model import attach_lora  # noqa: E402
from grand3d.pack import fill_rows, make_pack, pack_loss  # noqa: E402
from grand3d.schema import LoraConfig  # noqa: E402
from grand3d.tokens import Encoded  # noqa: E402

NUM_TOKENS = 61


def norm(self, x):
    """Llama's normalisation without its detour through single precision."""
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def small_model(dtype, hidden: int = 32, kind: str = "lora"):
    shape = transformers.LlamaConfig(
        vocab_size=NUM_TOKENS,
        hidden_size=hidden,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation=ATTENTION,
    )
    torch.manual_seed(0)
    model = attach_lora(transformers.LlamaForCausalLM(shape).requires_grad_(False), LoraConfig(rank=4, dropout=0.0, kind=kind))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2)
    return model.to(dtype).train()


@pytest.fixture(scope="module")
def double():
    before = transformers.models.llama.modeling_llama.LlamaRMSNorm.forward
    transformers.models.llama.modeling_llama.LlamaRMSNorm.forward = norm
    yield small_model(torch.float64)
    transformers.models.llama.modeling_llama.LlamaRMSNorm.forward = before


def learn(model, packs, back_end: str):
    """Summed loss and all adapter gradients."""
    model.zero_grad()
    losses = [pack_loss(model, pack.to(model.device), back_end) for pack in packs]
    sum(loss for loss, _ in losses).backward()
    grads = torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])
    return sum(loss.item() for loss, _ in losses), sum(count for _, count in losses), grads


def learn_plainly(model, groups):
    """The same by separate samples, as anyone would write it: full logits, labels of -100 outside the mask."""
    model.zero_grad()
    total = 0.0
    for question in (question for group in groups for question in group):
        ids = torch.tensor([question.prefix + question.suffix])
        labels = [-100] * len(question.prefix) + [
            t if trained else -100 for t, trained in zip(question.suffix, question.mask, strict=True)
        ]
        logits = model(input_ids=ids).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), reduction="sum")
        loss.backward()
        total += loss.item()
    return total, torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])


TOKEN = st.integers(0, NUM_TOKENS - 1)


@st.composite
def group_of_questions(draw):
    prefix = draw(st.lists(TOKEN, min_size=1, max_size=10))
    questions = []
    for _ in range(draw(st.integers(1, 4))):
        suffix = draw(st.lists(TOKEN, min_size=1, max_size=7))
        mask = draw(st.lists(st.booleans(), min_size=len(suffix), max_size=len(suffix)))
        mask[-1] = True
        questions.append(Encoded(prefix, suffix, mask))
    return questions


def agree(model, groups, tolerance: float, back_ends=("dense", "split"), plain=None) -> None:
    """Every back end teaches what separate samples teach ``plain``, by default the same model."""
    expected_loss, expected_grads = learn_plainly(plain or model, groups)
    for back_end in back_ends:
        for packs in ([make_pack(groups)], [make_pack([group]) for group in groups]):
            loss, count, grads = learn(model, packs, back_end)
            assert count == sum(sum(question.mask) for group in groups for question in group)
            assert loss == pytest.approx(expected_loss, rel=tolerance)
            off = (grads.to(expected_grads) - expected_grads).norm()
            assert off <= tolerance * expected_grads.norm(), back_end


@settings(max_examples=12, deadline=None)
@given(st.lists(group_of_questions(), min_size=1, max_size=3))
def test_shared_prefix_any_row_in_double_precision_equals_separate_samples(double, groups):
    agree(double, groups, 1e-10)


@pytest.mark.parametrize(
    "groups",
    [
        [[Encoded([3, 4, 5], [7], [True])]],
        [[Encoded([3, 4, 5], [7, 8, 9], [False, False, True])]],
        [[Encoded([3, 4, 5], [7], [True]), Encoded([3, 4, 5], [7], [True])]],
        [[Encoded([3, 4, 5], [1, 2], [False, True]), Encoded([3, 4, 5], [9] * 30, [False] * 20 + [True] * 10)]],
        [[Encoded([3], [7], [True])], [Encoded([3], [7], [True])], [Encoded([8, 9], [7, 1], [True, True])]],
    ],
    ids=["one_question_of_one_token", "one_question", "equal_one_token_answers", "very_unlike_lengths", "one_token_scenes"],
)
def test_shared_prefix_edge_cases_equal_separate_samples(double, groups):
    agree(double, groups, 1e-10)


def random_groups():
    generator = torch.Generator().manual_seed(3)

    def group(*sizes: int):
        prefix, *rest = [torch.randint(NUM_TOKENS, (size,), generator=generator).tolist() for size in sizes]
        return [Encoded(prefix, ids, [False] * (len(ids) - 1) + [True]) for ids in rest]

    return [group(80, 12, 1, 30, 7), group(9, 5)]


@pytest.mark.parametrize("kind", ["lora", "rslora", "dora"])
def test_shared_prefix_in_single_precision_equals_separate_samples(kind):
    agree(small_model(torch.float32, kind=kind), random_groups(), 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("back_end", ["dense", "flex"])
def test_shared_prefix_on_a_gpu_equals_separate_samples_on_a_cpu(back_end):
    """Half formats are compared at the attention alone (test_attention.py): rounding of a whole model would hide much."""
    model = small_model(torch.float32, hidden=128)
    plain = copy.deepcopy(model)
    agree(model.to("cuda"), random_groups(), 1e-4, (back_end,), plain)


def test_d11_make_pack_labels_are_the_masked_tokens_and_rows_stand_before_them():
    questions = [Encoded([5, 6], [10, 11, 12], [False, True, True]), Encoded([5, 6], [20, 21], [True, False])]
    pack = make_pack([questions, [Encoded([7], [8], [True])]])
    assert pack.labels.tolist() == [11, 12, 20, 8]
    assert pack.rows.tolist() == [2, 3, 1, 7]
    assert pack.input_ids.tolist() == [[5, 6, 10, 11, 12, 20, 21, 7, 8]]
    assert pack.position_ids.tolist() == [[0, 1, 2, 3, 4, 2, 3, 0, 1]]
    assert (pack.num_labels, pack.num_tokens, pack.num_samples) == (4, 9, 3)


@pytest.mark.parametrize(
    ("groups", "word"),
    [
        ([], "at least one"),
        ([[]], "at least one"),
        ([[Encoded([1], [2], [True])], [Encoded([], [5, 6], [True, True])]], "empty prefix, at least one token is expected"),
        ([[Encoded([1], [2], [False])]], "no trained token"),
        ([[Encoded([1], [2], [True]), Encoded([9], [2], [True])]], "another scene prefix"),
    ],
)
def test_d03_make_pack_unusable_questions_raise(groups, word):
    with pytest.raises(GrandError, match=word):
        make_pack(groups)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 60))
def test_fill_rows_places_every_group_once_within_the_budget(sizes, budget):
    rows = fill_rows(sizes, budget)
    assert sorted(i for row in rows for i in row) == list(range(len(sizes)))
    assert all(len(row) == 1 or sum(sizes[i] for i in row) <= budget for row in rows)
    # no two rows could be one
    totals = sorted(sum(sizes[i] for i in row) for row in rows)
    assert all(a + b > budget for a, b in pairwise(totals))
