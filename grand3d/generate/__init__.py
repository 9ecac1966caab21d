"""Replies of a language model to many questions over shared scenes."""

from grand3d.generate.ask import ask, encode_questions
from grand3d.generate.decode import GREEDY, MAX_NEW_TOKENS, Memory, Sampling, generate, prompt_limit

__all__ = ["GREEDY", "MAX_NEW_TOKENS", "Memory", "Sampling", "ask", "encode_questions", "generate", "prompt_limit"]
