"""Tokens that a base does not know yet: ids and numbers of the scene text ``coord``, one token each.

They start as the mean of the tokens they were written with before, in the input embedding and, where the base has one of its own,
in the output head; training moves these rows only (PEFT's ``trainable_token_indices``).
"""

from __future__ import annotations

import re
from typing import Any

import torch

from grand3d.errors import import_extra
from grand3d.serial import added_tokens

_NUMBER = re.compile(r"-?[0-9]+")


def add_tokens(tokenizer: Any, form: str) -> Any:
    """Teach a tokenizer the tokens of a scene text form; those it knows already stay as they are."""
    known = tokenizer.get_vocab()
    new = [word for word in added_tokens(form) if word not in known]
    if new:
        token = import_extra("transformers", "train").AddedToken
        # not special: they are part of what is read and answered, and must survive where special tokens are stripped
        tokenizer.add_tokens([token(word, normalized=False, special=False) for word in new])
    return tokenizer


def token_ids(tokenizer: Any, form: str) -> list[int]:
    """Ids of the tokens of a scene text form."""
    return tokenizer.convert_tokens_to_ids(list(added_tokens(form)))


def widen(model: Any, tokenizer: Any, form: str, num_known: int) -> None:
    """Give a model rows for the tokens from ``num_known`` on, which ``add_tokens`` added to its tokenizer.

    The same base always gets the same rows, so an adapter made on one machine fits on another.
    """
    words = [word for word in added_tokens(form) if tokenizer.convert_tokens_to_ids(word) >= num_known]
    if not words:
        return
    if model.get_input_embeddings().weight.shape[0] < len(tokenizer):
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    layers = [model.get_input_embeddings(), model.get_output_embeddings()]
    with torch.no_grad():
        for weight in {id(layer.weight): layer.weight for layer in layers if layer is not None}.values():
            start = weight.clone()
            for word in words:
                pieces = tokenizer.encode(_NUMBER.search(word)[0], add_special_tokens=False)
                weight[tokenizer.convert_tokens_to_ids(word)] = start[pieces].float().mean(0).to(weight.dtype)


def trained_rows(model: Any, ids: list[int]) -> dict[str, list[int]]:
    """PEFT's ``trainable_token_indices`` for these tokens: the embedding, and the head where it is not tied to it."""
    layers = [model.get_input_embeddings(), model.get_output_embeddings()]
    if layers[1] is None or layers[1].weight is layers[0].weight:
        layers = layers[:1]
    names = {id(module): name for name, module in model.named_modules()}
    return {names[id(layer)].rpartition(".")[2]: ids for layer in layers}
