"""Keeps replies inside a grammar and inside their token limit, whatever the model would rather write.

The likeliest token is tried first and costs microseconds; only when the grammar refuses it is the mask over the whole
vocabulary built. Tokens that the grammar leaves no choice about, as most of a tag, are put down without asking the model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from grand3d.errors import GrandError, import_extra
from grand3d.marks import ANSWER_END, DETAILED_END, PHRASE, PHRASE_END, PLACE, PLACE_END, STEP_END

# What brings a reply to its end soonest, whatever is open: the first of these that may follow is taken, again and again.
# Ends of what is open stand in front; then what must still come; then the inside of what is begun; then halves of characters.
_CLOSING = (ANSWER_END, DETAILED_END, STEP_END, PHRASE_END, PLACE_END, PLACE, PHRASE, "it", "no", "]", ">")
_CLOSING = (*_CLOSING, *"0123456789", ".", ",", " ", "-", "/", "p>")
_BYTES = (b"\x80", b"\x90", b"\xa0", b"\xbf")
_MANY = 200  # rounds; a closing that takes more is none

_tokenizers: WeakKeyDictionary[Any, dict[int, tuple[Any, list[list[int]]]]] = WeakKeyDictionary()


class Grammar:
    """A compiled grammar of replies for one tokenizer.

    Args:
        text: From ``grammar.reply_grammar``.
        num_words: Length of the model's logits.
        stop: Ids that end a reply.

    Raises:
        GrandError: If llguidance is missing or cannot read the tokenizer or the grammar.
    """

    def __init__(self, text: str, tokenizer: Any, num_words: int, stop: Collection[int]) -> None:
        library = import_extra("llguidance", "train")
        words, self.closing = _words(tokenizer, num_words)
        self.stop = frozenset(stop)
        self.num_words = num_words
        self._start = library.LLMatcher(words, library.LLMatcher.grammar_from_lark(text), log_level=0)
        if self._start.is_error():
            raise GrandError(f"the grammar of replies cannot be compiled: {self._start.get_error().splitlines()[0]}")
        self.shortest = len(_close(self._start, self.closing))

    def follow(self, limit: int) -> Guide:
        """Begin a reply of at most ``limit`` tokens.

        Raises:
            GrandError: If no reply is that short.
        """
        if self.shortest > limit:
            raise GrandError(
                f"a reply may have {limit} tokens, but the shortest that this question can have takes {self.shortest}; "
                f"expected max_new_tokens of {self.shortest} at least, or replies without a grammar"
            )
        return Guide(self, self.start(), limit)

    def start(self) -> Any:
        """llguidance's matcher at the beginning of a reply."""
        return self._start.deep_copy()


class Guide:
    """One reply as it grows: what may follow, and what must.

    Attributes:
        ended: Nothing may follow; the reply is whole.
        cut: It was brought to its end because of the token limit.
    """

    def __init__(self, grammar: Grammar, matcher: Any, limit: int) -> None:
        self.grammar, self.left, self._limit = grammar, limit, limit
        self.ended = self.cut = False
        self._matcher = matcher
        # Far from the limit nobody needs to know how the reply could be closed. 32: what an open list or step adds to it.
        self._watch = 2 * grammar.shortest + 32
        self._closing = _close(matcher, grammar.closing) if limit <= self._watch else None

    def first(self) -> list[int]:
        """Tokens that every reply begins with."""
        return self._forced()

    def fits(self, tokens: Sequence[int]) -> bool:
        """Whether a reply that begins with these tokens can be over within the limit of this one."""
        matcher = self.grammar.start()
        if matcher.try_consume_tokens(list(tokens)) != len(tokens):
            return False
        return len(tokens) + len(_close(matcher, self.grammar.closing)) <= self._limit

    def resume(self, tokens: Sequence[int]) -> list[int]:
        """Begin with tokens that fit; they and what must follow them."""
        if self._matcher.try_consume_tokens(list(tokens)) != len(tokens):
            raise GrandError(f"the grammar of replies refuses what it allowed before: {self._matcher.get_error()}")
        self.left -= len(tokens)
        if self.left <= self._watch:
            self._closing = _close(self._matcher, self.grammar.closing)
        return [*tokens, *self._forced()]

    def take(self, token: int) -> list[int] | None:
        """Put down a token and what must follow it.

        Returns:
            The tokens put down: none for one that ends the reply; the shortest way to the end if the limit leaves no room
            for more. None if the token may not follow here.
        """
        if token in self.grammar.stop:
            self.ended = self._matcher.is_accepting()
            return [] if self.ended else None
        if self._matcher.try_consume_tokens([token]) != 1:
            return None
        if self.left - 1 <= self._watch:
            # what would have closed the reply before mostly does so behind one token more
            closing = self._closing
            if closing is None or len(closing) > self.left - 1 or not _ends(self._matcher, closing):
                closing = _close(self._matcher, self.grammar.closing)
            if len(closing) > self.left - 1:
                self._matcher.rollback(1)
                return self._end(self._closing if self._closing is not None else _close(self._matcher, self.grammar.closing))
            self._closing = closing
        self.left -= 1
        return [token, *self._forced()]

    def mask(self) -> Tensor:
        """Whether each token may follow, (vocabulary,)."""
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), np.uint8), bitorder="little")
        allowed = torch.from_numpy(bits[: self.grammar.num_words].astype(bool))
        allowed[list(self.grammar.stop)] = self._matcher.is_accepting()
        return allowed

    def _forced(self) -> list[int]:
        tokens: list[int] = []
        if not self._matcher.is_stopped():
            tokens = self._matcher.compute_ff_tokens()
        if len(tokens) > self.left:  # written at length by the library: the closing says the same in fewer tokens
            return self._end(self._closing if self._closing is not None else _close(self._matcher, self.grammar.closing))
        if tokens and self._matcher.try_consume_tokens(tokens) != len(tokens):
            raise GrandError(f"the grammar of replies refuses its own continuation: {self._matcher.get_error()}")
        self.left -= len(tokens)
        if tokens and self.left <= self._watch:
            self._closing = _close(self._matcher, self.grammar.closing)
        self.ended = self._matcher.is_stopped()
        if not self.ended and not self.left:
            self.ended = self.cut = True
        return tokens

    def _end(self, tokens: list[int]) -> list[int]:
        self.ended = self.cut = True
        self.left -= len(tokens)
        return tokens


def _close(matcher: Any, pieces: list[list[int]]) -> list[int]:
    """A short way from here to the end of a reply."""
    matcher = matcher.deep_copy()
    tokens: list[int] = []
    for _ in range(_MANY):
        if matcher.is_accepting() or matcher.is_stopped():
            return tokens
        new = matcher.compute_ff_tokens()
        if not new:
            allowed = [piece for piece in pieces if matcher.validate_tokens(piece) == len(piece)]
            new = next((piece for piece in allowed if _ends(matcher, piece)), allowed[0] if allowed else [])
        if not new or matcher.try_consume_tokens(new) != len(new):
            break
        tokens += new
    raise GrandError("the grammar of replies has a state that no reply can end from; this is a fault of the library")


def _ends(matcher: Any, piece: list[int]) -> bool:
    """Whether this piece may follow and a reply is whole behind it."""
    taken = matcher.try_consume_tokens(piece)
    whole = taken == len(piece) and matcher.is_accepting()
    matcher.rollback(taken)
    return whole


def _words(tokenizer: Any, num_words: int) -> tuple[Any, list[list[int]]]:
    """The tokenizer as llguidance reads it, made once, and the ids of the closing pieces."""
    made = _tokenizers.setdefault(tokenizer, {})
    if num_words not in made:
        try:
            words = import_extra("llguidance.hf", "train").from_tokenizer(tokenizer, n_vocab=num_words)
        except Exception as error:  # it raises what it likes for a tokenizer of another kind
            raise GrandError(
                f"the tokenizer {tokenizer.name_or_path!r} ({type(tokenizer).__name__}) cannot be used for constrained replies: "
                f"{str(error).splitlines()[0]}; expected a fast one (tokenizer.json). Ask without a grammar"
            ) from None
        pieces = [words.tokenize_str(piece) for piece in _CLOSING] + [words.tokenize_bytes(piece) for piece in _BYTES]
        made[num_words] = words, [piece for piece in pieces if piece]
    return made[num_words]
