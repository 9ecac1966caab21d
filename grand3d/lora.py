"""LoRA's linear layer in as few passes over memory as it takes.

PEFT computes ``W x + scale * B (A x)`` with a product, a scaling and a sum over the full width of every layer, forward and
backward. On a CPU those cost as much as the products. Here the update is added by the product itself.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from peft.tuners.lora.layer import Linear


def fuse(model: Any, adapter: str = "default") -> int:
    """Give every plain LoRA layer of a PEFT model the fused forward pass; returns how many have it.

    Layers with dropout, a bias of their own, or another variant keep PEFT's pass, and so does any layer while its adapter is
    merged or switched off, or runs under autocast.
    """
    layers = [module for module in model.modules() if type(module) is Linear and _plain(module, adapter)]
    for layer in layers:
        layer.forward = MethodType(_forward, layer)
    return len(layers)


def _plain(layer: Linear, adapter: str) -> bool:
    return (
        adapter in layer.lora_A
        and isinstance(layer.lora_dropout[adapter], torch.nn.Identity)
        and not layer.use_dora.get(adapter, False)
        and not layer.lora_bias.get(adapter, False)
        and type(layer.base_layer) is torch.nn.Linear
        and not layer.base_layer.weight.requires_grad
    )


def _forward(self: Linear, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if args or kwargs or self.disable_adapters or self.merged or len(self.active_adapters) != 1:
        return Linear.forward(self, x, *args, **kwargs)
    name = self.active_adapters[0]
    base, down, up = self.base_layer, self.lora_A[name].weight, self.lora_B[name].weight
    if not x.dtype == base.weight.dtype == down.dtype or torch.is_autocast_enabled(x.device.type):
        return Linear.forward(self, x)
    return _Fused.apply(x, base.weight, base.bias, down, up, self.scaling[name])


class _Fused(torch.autograd.Function):
    """x (..., in) -> (..., out); weight and bias are frozen, down is (r, in), up is (out, r)."""

    @staticmethod
    def forward(ctx: Any, x, weight, bias, down, up, scale: float):
        rows = x.reshape(-1, x.shape[-1])
        inner = rows @ down.T
        out = torch.nn.functional.linear(rows, weight, bias).addmm_(inner, up.T, alpha=scale)
        ctx.save_for_backward(rows, weight, down, up, inner)
        ctx.scale = scale
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, grad):
        rows, weight, down, up, inner = ctx.saved_tensors
        flat = grad.reshape(-1, grad.shape[-1])
        inner_grad = (flat @ up).mul_(ctx.scale)
        x_grad = None
        if ctx.needs_input_grad[0]:
            x_grad = (flat @ weight).addmm_(inner_grad, down).view(*grad.shape[:-1], -1)
        return x_grad, None, None, inner_grad.T @ rows, (flat.T @ inner).mul_(ctx.scale), None
