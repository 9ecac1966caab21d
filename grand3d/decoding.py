"""How replies are made: settings, without a model."""

from __future__ import annotations

from dataclasses import dataclass

from grand3d.errors import GrandError, shown

MAX_NEW_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn. Temperature 0 takes the likeliest, always.

    Attributes:
        temperature: Divides the logits before they are drawn from.
        top_p: Only the likeliest tokens that together reach this probability are drawn from.
        seed: Of the draw; the same seed and requests give the same replies.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or 1e-6 <= self.temperature <= 1e6):  # beyond, logits divided by it are no numbers
            raise GrandError(
                f"temperature is {self.temperature}, expected 0 (always the likeliest token) or 0.000001 to 1,000,000"
            )
        if not 0 < self.top_p <= 1:
            raise GrandError(f"top_p is {self.top_p}, expected a probability above 0 and up to 1")
        if not 0 <= self.seed < 2**63:
            raise GrandError(f"seed is {shown(self.seed)}, expected 0 to {2**63 - 1:,}")


GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Decoding:
    """How questions are answered.

    Attributes:
        max_new_tokens: A reply is cut here, its stop token included.
        batch_size: Questions of one scene that are answered at a time; it changes no reply beyond rounding.
        constrained: Replies are kept inside the grammar of their task and scene (``grammar.reply_grammar``), so that each
            can be read; False reports what the model writes by itself.
        candidates: The answer of a reference is the likeliest of the scene's objects or none of them, that of an existence
            question the likelier of yes and no; their probabilities go with the reply.
        contrast: How much of what the model says over the same scene with its boxes dealt out anew is taken off what it says
            (``generate.sides``); 0 for nothing.
        orders: Orders in which the objects are listed; with several, each question is answered once for each, and the replies
            agree on one (``generate.agree``).
        free_places: Things are placed on tables only where they have room (``placement.free_columns``): the reply names the
            thing first, and its place is one where that thing overlaps no other.
    """

    max_new_tokens: int = MAX_NEW_TOKENS
    batch_size: int = 96
    sampling: Sampling = GREEDY
    constrained: bool = True
    candidates: bool = False
    contrast: float = 0.0
    orders: int = 1
    free_places: bool = False

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise GrandError(f"max_new_tokens is {shown(self.max_new_tokens)}, expected 1 or more")
        if self.batch_size < 1:
            raise GrandError(f"batch_size is {shown(self.batch_size)}, expected 1 or more")
        if not 0 <= self.contrast <= 100:
            raise GrandError(f"contrast is {self.contrast}, expected 0 (none) to 100")
        if not 1 <= self.orders <= 100:
            raise GrandError(f"orders is {shown(self.orders)}, expected 1 to 100")
        if self.free_places and not self.constrained:
            raise GrandError("free places are told by the grammar of a reply, expected constrained replies with them")
        if self.candidates and not self.constrained:
            raise GrandError("candidates are weighed under the grammar of a reply, expected constrained replies beside them")
        if self.candidates and self.sampling.temperature:
            raise GrandError(f"temperature is {self.sampling.temperature}, expected 0 where the likeliest candidate is taken")
