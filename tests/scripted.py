"""Replies that are written beforehand, in place of a model's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

REFERENCE = (
    "<detailed_grounding><p>the chair</p>[<obj_1>] <p>the desk</p>[<obj_0>]</detailed_grounding>"
    "<refer_expression_grounding><p>chair</p>[<obj_1>]</refer_expression_grounding>"
)


class Script:
    """Stands in for ``generate``: gives the replies one after the other and keeps what was asked."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.replies: list[Any] = []
        self.prompts: list[str] = []

    def __call__(self, model: Any, tokenizer: Any, requests: Any, max_new_tokens: int, *rest: Any) -> Iterator[Any]:
        self.prompts.append(self.tokenizer.decode(requests[0].prefix + requests[0].suffix))
        reply = self.replies.pop(0) if self.replies else "Yes"
        if isinstance(reply, BaseException):
            raise reply
        yield 0, reply, True
