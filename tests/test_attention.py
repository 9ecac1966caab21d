"""The fast attention of packs against the plain mask: outputs and gradients."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("transformers")

from torch.nn import functional as F  # noqa: E402

from grand3d.attention import attend, dense_mask, make_layout, rectangle_suffixes  # noqa: E402

MODULE = SimpleNamespace(is_causal=True, num_key_value_groups=1, training=False)
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=10)


def tensors(num_prefix: int, lengths: list[int], heads: int = 4, groups: int = 2, dtype=torch.float64, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    total = num_prefix + sum(lengths)
    shapes = ((1, heads, total, 8), (1, groups, total, 8), (1, groups, total, 8), (1, total, heads, 8))
    return [torch.randn(shape, generator=generator, dtype=dtype, requires_grad=True) for shape in shapes]


def plain(query, key, value, num_prefix: int, lengths: list[int]):
    repeat = query.shape[1] // key.shape[1]
    mask = dense_mask(num_prefix, lengths, query.dtype)
    key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.3).transpose(1, 2)


def compare(out, expected, inputs, grad, tolerance: float) -> None:
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    ours, theirs = torch.autograd.grad(out, inputs, grad, retain_graph=True), torch.autograd.grad(expected, inputs, grad)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() <= tolerance * (1 + b.norm())


def test_dense_mask_two_suffixes_see_the_prefix_and_themselves():
    seen = dense_mask(2, [1, 2], torch.float32)[0, 0] == 0
    assert seen.int().tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]]


def test_make_layout_lengths_of_2_and_1_repeats_the_last_token_as_padding():
    (box,) = make_layout(7, [2, 1]).boxes
    assert box.rectangle.tolist() == [[2, 2], [0, 1]]
    assert box.tokens.tolist() == [2, 0, 1]
    assert box.places.tolist() == [0, 2, 3]


def test_make_layout_many_suffixes_stand_with_those_of_their_length():
    lengths = [9, 1] * 8
    boxes = make_layout(7, lengths).boxes
    assert [tuple(box.rectangle.shape) for box in boxes] == [(8, 1), (8, 9)]
    assert sorted(torch.cat([box.tokens for box in boxes]).tolist()) == list(range(sum(lengths)))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), LENGTHS, st.sampled_from([(4, 4), (4, 2), (3, 1)]), st.integers(0, 99))
def test_attend_packed_on_cpu_equals_the_dense_mask(num_prefix, lengths, sizes, seed):
    *inputs, grad = tensors(num_prefix, lengths, *sizes, seed=seed)
    out, _ = attend(MODULE, *inputs, None, scaling=0.3, layout=make_layout(num_prefix, lengths))
    compare(out, plain(*inputs, num_prefix, lengths), inputs, grad, 1e-10)


def test_attend_packed_in_single_precision_with_a_long_prefix_equals_the_dense_mask():
    lengths = [40, 1, 17, 33]
    *inputs, grad = tensors(600, lengths, dtype=torch.float32)
    out, _ = attend(MODULE, *inputs, None, scaling=0.3, layout=make_layout(600, lengths))
    compare(out, plain(*inputs, 600, lengths), inputs, grad, 1e-5)


def test_attend_packed_with_very_unlike_scores_stays_finite():
    lengths = [3, 2]
    *inputs, grad = tensors(4, lengths)
    inputs = [(x.detach() * 60).requires_grad_() for x in inputs]
    out, _ = attend(MODULE, *inputs, None, scaling=0.3, layout=make_layout(4, lengths))
    compare(out, plain(*inputs, 4, lengths), inputs, grad, 1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), LENGTHS)
def test_rectangle_suffixes_equals_the_dense_mask(num_prefix, lengths):
    *inputs, grad = tensors(num_prefix, lengths)
    query, key, value = inputs
    split = [num_prefix, sum(lengths)]
    (_, rest), (key_prefix, key_rest), (value_prefix, value_rest) = (x.split(split, 2) for x in inputs)
    out = rectangle_suffixes(rest, key_prefix, value_prefix, key_rest, value_rest, make_layout(num_prefix, lengths), 0.3)
    expected = plain(query, key, value, num_prefix, lengths)
    compare(out.transpose(1, 2), expected[:, num_prefix:], inputs, grad[:, num_prefix:], 1e-10)


def test_attend_flash_calls_the_variable_length_kernel_with_each_suffix_behind_the_prefix(monkeypatch):
    def varlen(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal):
        assert causal
        assert (max_seqlen_q, max_seqlen_k) == (3, 8)
        rows = []
        for q0, q1, k0, k1 in zip(cu_seqlens_q[:-1], cu_seqlens_q[1:], cu_seqlens_k[:-1], cu_seqlens_k[1:], strict=True):
            q, k, v = (x.transpose(0, 1)[None] for x in (query[q0:q1], key[k0:k1], value[k0:k1]))
            mask = torch.ones(q1 - q0, k1 - k0, dtype=torch.bool).tril(int((k1 - k0) - (q1 - q0)))
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            rows.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=softmax_scale)[0].transpose(0, 1))
        return torch.cat(rows)

    kernel = ModuleType("flash_attn")
    kernel.flash_attn_varlen_func = varlen
    monkeypatch.setitem(sys.modules, "flash_attn", kernel)
    *inputs, grad = tensors(5, [3, 1, 2])
    out, _ = attend(MODULE, *inputs, None, scaling=0.3, layout=make_layout(5, [3, 1, 2], flash=True))
    compare(out, plain(*inputs, 5, [3, 1, 2]), inputs, grad, 1e-10)


def test_attend_without_a_layout_is_causal_attention():
    query, key, value, _ = tensors(6, [1], groups=4)
    out, _ = attend(MODULE, query, key, value, None, scaling=0.3)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3).transpose(1, 2)
    torch.testing.assert_close(out, expected)
