"""The fast attention of packed rows against the plain mask: outputs and gradients."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("transformers")

from torch.nn import functional as F  # noqa: E402

from grand3d import kernels  # noqa: E402
from grand3d.attention import attend, choose, prepare, visible  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.layout import make_layout  # noqa: E402

MODULE = SimpleNamespace(is_causal=True, num_key_value_groups=1, training=False)
GROUPS = st.lists(st.tuples(st.integers(1, 12), st.lists(st.integers(1, 9), min_size=1, max_size=10)), min_size=1, max_size=3)
HEADS = st.sampled_from([(4, 4), (4, 2), (3, 1)])
EDGES = [[(1, [1])], [(1, [1]), (1, [1])], [(5, [3, 1, 2])], [(2, [1, 1, 1]), (7, [4])], [(12, [9] * 10)]]


def tensors(groups, heads: int = 4, key_heads: int = 2, dtype=torch.float64, seed: int = 0, width: int = 8):
    generator = torch.Generator().manual_seed(seed)
    total = sum(num_prefix + sum(lengths) for num_prefix, lengths in groups)
    shapes = ((1, heads, total, width), *((1, key_heads, total, width),) * 2, (1, total, heads, width))
    return [torch.randn(shape, generator=generator, dtype=dtype, requires_grad=True) for shape in shapes]


def plain(query, key, value, groups):
    repeat = query.shape[1] // key.shape[1]
    mask = visible(make_layout(groups))
    key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.3).transpose(1, 2)


def compare(out, expected, inputs, grad, tolerance: float) -> None:
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    ours, theirs = torch.autograd.grad(out, inputs, grad, retain_graph=True), torch.autograd.grad(expected, inputs, grad)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() <= tolerance * (1 + b.norm())


def run(back_end: str, inputs, groups):
    return attend(MODULE, *inputs, None, scaling=0.3, row=prepare(make_layout(groups), back_end, inputs[0].device))[0]


def test_visible_two_scenes_see_themselves_and_suffixes_their_prefix():
    seen = visible(make_layout([(2, [1, 2]), (1, [1])]))
    assert seen.int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 1],
    ]


def test_make_layout_lengths_of_2_and_1_repeats_the_last_token_as_padding():
    (box,) = make_layout([(7, [2, 1])]).boxes
    assert box.rectangle.tolist() == [[9, 9], [7, 8]]
    assert box.tokens.tolist() == [9, 7, 8]
    assert box.places.tolist() == [0, 2, 3]


def test_make_layout_many_suffixes_stand_with_those_of_their_length():
    boxes = make_layout([(7, [9, 1] * 4), (3, [1, 9] * 4)]).boxes
    assert [tuple(box.rectangle.shape) for box in boxes] == [(8, 1), (8, 9)]
    assert sorted(torch.cat([box.tokens for box in boxes]).tolist()) == [*range(7, 47), *range(50, 90)]


@settings(max_examples=25, deadline=None)
@given(GROUPS, HEADS, st.integers(0, 99))
def test_shared_prefix_split_on_cpu_equals_the_dense_mask(groups, heads, seed):
    *inputs, grad = tensors(groups, *heads, seed=seed)
    compare(run("split", inputs, groups), plain(*inputs, groups), inputs, grad, 1e-10)


def test_shared_prefix_split_in_single_precision_with_a_long_prefix_equals_the_dense_mask():
    groups = [(600, [40, 1, 17, 33]), (31, [5])]
    *inputs, grad = tensors(groups, dtype=torch.float32)
    compare(run("split", inputs, groups), plain(*inputs, groups), inputs, grad, 1e-5)


def test_shared_prefix_split_with_very_unlike_scores_stays_finite():
    groups = [(4, [3, 2])]
    *inputs, grad = tensors(groups)
    inputs = [(x.detach() * 60).requires_grad_() for x in inputs]
    compare(run("split", inputs, groups), plain(*inputs, groups), inputs, grad, 1e-9)


NEAR = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
"""What rounding changes; a token seen or hidden by mistake changes some tenths."""


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize(
    ("device", "back_end"),
    [
        ("cpu", "split"),
        ("cpu", "dense"),
        *(pytest.param("cuda", name, marks=pytest.mark.gpu) for name in ("split", "flex", "flash", "dense")),
    ],
)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
def test_shared_prefix_in_each_number_format_is_near_the_dense_mask_in_double(device, back_end, heads, dtype):
    try:
        choose(back_end, torch.device(device), dtype)
    except GrandError as error:
        pytest.skip(str(error))
    groups = [(200, [40, 1, 17, 33]), (31, [5]), (1, [1])]
    *exact, grad = (x.detach().to(dtype).double().requires_grad_() for x in tensors(groups, *heads, width=64))
    expected = plain(*exact, groups)
    inputs = [x.detach().to(device, dtype).requires_grad_() for x in exact]
    out = attend(MODULE, *inputs, None, scaling=0.3, row=prepare(make_layout(groups), back_end, torch.device(device)))[0]
    theirs = (expected, *torch.autograd.grad(expected, exact, grad))
    ours = (out, *torch.autograd.grad(out, inputs, grad.to(device, dtype)))
    for a, b in zip(ours, theirs, strict=True):
        assert (a.cpu().double() - b).norm() <= NEAR[dtype] * b.norm()


def forward(query, key, value, of_query, of_key, causal, scale):
    """What the CUDA kernel computes, sequence by sequence with plain products."""
    outs, sums = [], []
    for i in range(len(of_query.bounds) - 1):
        q = query[of_query.bounds[i] : of_query.bounds[i + 1]]
        k, v = (x[of_key.bounds[i] : of_key.bounds[i + 1]].repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (key, value))
        assert len(q) <= of_query.longest
        assert len(k) <= of_key.longest
        scores = torch.einsum("qhd,khd->hqk", q, k) * scale
        if causal:
            hidden = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q)).logical_not()
            scores = scores.masked_fill(hidden, -torch.inf)
        outs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))
        sums.append(scores.logsumexp(-1))
    return torch.cat(outs), torch.cat(sums, 1), torch.zeros(2), torch.zeros(2)


def backward(grad, query, key, value, out, lse, of_query, of_key, causal, state, scale):
    """Its backward pass: probabilities from the given log-sum-exp, their sum with the gradient from the given output."""
    assert len(state) == 2
    d_query, d_key, d_value = (torch.zeros_like(x) for x in (query, key, value))
    for i in range(len(of_query.bounds) - 1):
        rows, columns = (slice(b[i], b[i + 1]) for b in (of_query.bounds, of_key.bounds))
        q, repeat = query[rows], query.shape[1] // key.shape[1]
        k, v = (x[columns].repeat_interleave(repeat, 1) for x in (key, value))
        chance = (torch.einsum("qhd,khd->hqk", q, k) * scale - lse[:, rows, None]).exp()
        if causal:
            chance = chance * torch.ones(len(q), len(k)).tril(len(k) - len(q))
        d_chance = torch.einsum("qhd,khd->hqk", grad[rows], v)
        d_score = chance * (d_chance - (grad[rows] * out[rows]).sum(-1).T[..., None]) * scale
        d_query[rows] = torch.einsum("hqk,khd->qhd", d_score, k)
        for whole, wide in (
            (d_key, torch.einsum("hqk,qhd->khd", d_score, q)),
            (d_value, torch.einsum("hqk,qhd->khd", chance, grad[rows])),
        ):
            whole[columns] = wide.unflatten(1, (-1, repeat)).sum(2)
    return d_query, d_key, d_value


@settings(max_examples=15, deadline=None)
@given(GROUPS, HEADS)
def test_shared_prefix_variable_length_calls_equal_the_dense_mask(groups, heads):
    """All of the CUDA path but the kernel, which this stands in for, on a CPU."""
    *inputs, grad = tensors(groups, *heads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_varlen_forward", forward)
        patch.setattr(kernels, "_varlen_backward", backward)
        out = kernels.Varlen.apply(*inputs, kernels.segments(make_layout(groups), "cpu"), 0.3)
        compare(out, plain(*inputs, groups), inputs, grad, 1e-10)


@pytest.mark.parametrize(
    ("operation", "inputs", "ends"),
    [
        ("forward", "query key value", "return_debug_mask scale"),
        ("backward", "grad_out query key value out logsumexp", "rng_state unused scale"),
    ],
)
def test_variable_length_kernel_has_the_arguments_that_are_given(operation, inputs, ends):
    expected = f"{inputs} cum_seq_q cum_seq_k max_q max_k dropout_p is_causal {ends}".split()
    arguments = getattr(torch.ops.aten, f"_flash_attention_{operation}").default._schema.arguments
    assert [argument.name for argument in arguments][: len(expected)] == expected


@pytest.mark.parametrize("groups", EDGES)
def test_shared_prefix_flex_equals_the_dense_mask(groups):
    """FlexAttention without a compiler; it has no backward pass on a CPU."""
    query, key, value, _ = (x.detach() for x in tensors(groups))
    with torch.no_grad():
        out = run("flex", (query, key, value), groups)
    torch.testing.assert_close(out, plain(query, key, value, groups), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", EDGES)
def test_shared_prefix_flash_calls_the_kernel_with_each_suffix_behind_its_prefix(monkeypatch, groups):
    def varlen(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal):
        assert causal
        of_query, of_key = kernels.Ends(cu_seqlens_q, max_seqlen_q), kernels.Ends(cu_seqlens_k, max_seqlen_k)
        # prefixes stand in front of their suffixes here, so the queries are in the row's order already
        return forward(query, key, value, of_query, of_key, True, softmax_scale)[0]

    kernel = ModuleType("flash_attn")
    kernel.flash_attn_varlen_func = varlen
    monkeypatch.setitem(sys.modules, "flash_attn", kernel)
    *inputs, grad = tensors(groups)
    compare(run("flash", inputs, groups), plain(*inputs, groups), inputs, grad, 1e-10)


def test_attend_without_a_layout_is_causal_attention():
    query, key, value, _ = tensors([(5, [1])], key_heads=4)
    out, _ = attend(MODULE, query, key, value, None, scaling=0.3)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3).transpose(1, 2)
    torch.testing.assert_close(out, expected)


CPU, CUDA, MPS = (torch.device(name) for name in ("cpu", "cuda", "mps"))


@pytest.mark.parametrize(
    ("wanted", "device", "dtype", "capability", "expected"),
    [
        ("auto", CPU, torch.float32, None, "split"),
        ("auto", CUDA, torch.bfloat16, (9, 0), "split"),
        ("auto", CUDA, torch.float32, (9, 0), "flex"),
        ("auto", CUDA, torch.float16, (7, 5), "flex"),
        ("auto", MPS, torch.float32, None, "dense"),
        ("split", CPU, torch.bfloat16, None, "split"),
        ("dense", CUDA, torch.float32, (9, 0), "dense"),
        ("flex", CUDA, torch.float32, (7, 5), "flex"),
    ],
)
def test_choose_takes_what_the_device_can(monkeypatch, wanted, device, dtype, capability, expected):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    assert choose(wanted, device, dtype) == expected


@pytest.mark.parametrize(
    ("wanted", "device", "dtype", "word"),
    [
        ("flex", CPU, torch.float32, "no backward pass on a CPU"),
        ("flash", CPU, torch.bfloat16, r"grand3d\[flash\]"),
        ("flash", CUDA, torch.float32, "float32"),
        ("split", CUDA, torch.float32, "float32"),
        ("split", MPS, torch.float32, "take 'auto'"),
    ],
)
def test_choose_says_what_is_missing(monkeypatch, wanted, device, dtype, word):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GrandError, match=word):
        choose(wanted, device, dtype)


@pytest.mark.parametrize("lacks", ["Ampere", "FlashAttention", "CUDA"])
def test_choose_on_gpus_without_fused_kernels_takes_flex(monkeypatch, lacks):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5) if lacks == "Ampere" else (9, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: lacks != "FlashAttention")
    monkeypatch.setattr(torch.version, "hip", "6.4" if lacks == "CUDA" else None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert choose("auto", CUDA, torch.bfloat16) == "flex"
    with pytest.raises(GrandError, match="'split', which runs on"):
        choose("split", CUDA, torch.bfloat16)
    if lacks != "FlashAttention":  # PyTorch's own is another one
        with pytest.raises(GrandError, match="'flash', which needs"):
            choose("flash", CUDA, torch.bfloat16)


@pytest.mark.parametrize("back_end", ["split", "dense"])
@pytest.mark.parametrize(("of_score", "of_value"), [(8, 3), (12, 16), (5, 5)])
def test_attend_queries_and_values_of_unlike_widths_equal_plain_attention(back_end, of_score, of_value):
    """As in multi-head latent attention."""
    groups, generator = [(5, [3, 1, 2]), (2, [4])], torch.Generator().manual_seed(0)
    shapes = ((1, 4, 17, of_score), (1, 2, 17, of_score), (1, 2, 17, of_value), (1, 17, 4, of_value))
    *inputs, grad = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    compare(run(back_end, inputs, groups), plain(*inputs, groups), inputs, grad, 1e-10)


def test_attend_with_a_row_refuses_dropout():
    inputs = tensors([(5, [1])])[:3]
    with pytest.raises(GrandError, match=r"SimpleNamespace drops attention at random \(0\.1\).*expected 0"):
        attend(MODULE, *inputs, None, dropout=0.1, row=prepare(make_layout([(5, [1])]), "split", CPU))


@pytest.mark.parametrize("back_end", ["split", "dense"])
@pytest.mark.parametrize("limit", ["window", "chunk"])
def test_attend_refuses_samples_longer_than_the_layer_sees(back_end, limit):
    """Each back end shows the whole prefix."""
    config = SimpleNamespace(attention_chunk_size=5 if limit == "chunk" else None)
    module, window = SimpleNamespace(**vars(MODULE), config=config), {"sliding_window": 5} if limit == "window" else {}
    for groups in ([(4, [1]), (3, [2])], [(2, [1]), (4, [2])]):
        row = prepare(make_layout(groups), back_end, CPU)
        if row.layout.longest <= 5:
            attend(module, *tensors(groups)[:3], None, row=row, **window)
            continue
        with pytest.raises(GrandError, match=r"sees 5 tokens back, a sample has 6; set prompt\.max_tokens to at most 5"):
            attend(module, *tensors(groups)[:3], None, row=row, **window)
