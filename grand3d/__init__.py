"""grand3d: language models that answer questions about 3D rooms in grounded text.

The names below are loaded when they are first used: ``import grand3d`` loads neither numpy nor torch.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "GrandError": "errors",
    "Object": "scene",
    "Scene": "scene",
    "load_scenes": "scene",
    "Data": "sample",
    "Sample": "sample",
    "Reply": "sample",
    "load_data": "sample",
    "save_data": "sample",
    "make_data": "synth",
    "load_config": "config",
    "load_adapter": "model",
    "predict": "evaluate",
    "score": "evaluate",
    "Conversation": "chat",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'grand3d' has no attribute {name!r}")
    return getattr(importlib.import_module(f"grand3d.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
