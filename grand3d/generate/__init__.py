"""Replies of a language model to many questions over shared scenes."""

from grand3d.decoding import GREEDY, MAX_NEW_TOKENS, Decoding, Sampling
from grand3d.generate.ask import ask, check_limits, encode_questions
from grand3d.generate.decode import Memory, Times, choose, generate, prompt_limit
from grand3d.generate.weigh import Choice

__all__ = ["GREEDY", "MAX_NEW_TOKENS", "Choice", "Decoding", "Memory", "Sampling", "Times", "ask", "check_limits"]
__all__ += ["choose", "encode_questions", "generate", "prompt_limit"]
