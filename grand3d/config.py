"""The configuration of a run (``schema``), read from one YAML file and ``key=value`` overrides.

A key that is not in the schema, a value of the wrong kind, a number out of its limits and a setting that contradicts
another are all reported in one message. There is no inheritance, no interpolation and no code in a configuration.
Relative paths are relative to the working folder.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import operator
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from grand3d.errors import GrandError
from grand3d.files import shown
from grand3d.schema import (
    LIMITS,
    PATHS,
    Config,
    PromptConfig,
)
from grand3d.yamls import parse_yaml, read_yaml

MOST_FAULTS = 20


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read a YAML file, apply overrides such as ``train.learning_rate=1e-4``, check everything.

    Raises:
        GrandError: All faults in one message.
    """
    raw = read_yaml(path)
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise GrandError(
            f"{path}: a configuration is a mapping (model:, lora:, prompt:, data:, train:), this is {type(raw).__name__}"
        )
    faults: list[str] = []
    for override in overrides:
        _apply_override(raw, override, faults)
    return _checked(raw, str(path), faults)


def from_dict(raw: Mapping[str, Any], where: str = "configuration") -> Config:
    """A configuration from plain values, checked as ``load_config`` does.

    Raises:
        GrandError: All faults in one message.
    """
    return _checked(raw, where, [])


def override_prompt(prompt: PromptConfig, overrides: Iterable[str]) -> PromptConfig:
    """Prompt settings with overrides such as ``prompt.top_k=100``.

    Raises:
        GrandError: All faults in one message; also for a setting of another section.
    """
    raw: dict[str, Any] = {"prompt": to_dict(prompt)}
    faults: list[str] = []
    for override in overrides:
        if not override.strip().startswith("prompt."):
            faults.append(
                f"override {shown(override)}: a finished adapter takes prompt.KEY=VALUE alone, expected such as prompt.top_k=100"
            )
        else:
            _apply_override(raw, override, faults)
    return _checked(raw, "command line", faults).prompt


def to_dict(config: Any) -> dict[str, Any]:
    """The resolved configuration, or one section of it, as plain values (tuples become lists)."""
    return json.loads(json.dumps(asdict(config)))


def dump_yaml(config: Config) -> str:
    """The resolved configuration as YAML, every default written out; ``load_config`` reads it back unchanged."""
    return yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)


def flat(value: Any, where: str = "") -> dict[str, Any]:
    """Nested sections as one level of dotted keys; lists become their JSON text."""
    if not isinstance(value, dict):
        return {where: value if isinstance(value, int | float | str | bool) else json.dumps(value)}
    return {key: leaf for name, inner in value.items() for key, leaf in flat(inner, f"{where}.{name}" if where else name).items()}


def _checked(raw: Mapping[str, Any], where: str, faults: list[str]) -> Config:
    config = _build(Config, raw, "", faults)
    if not faults:
        faults.extend(_contradictions(config))
    if faults:
        lines = faults[:MOST_FAULTS] + [f"and {len(faults) - MOST_FAULTS} more"] * (len(faults) > MOST_FAULTS)
        number = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise GrandError(f"{where}: {number} in the configuration:\n  " + "\n  ".join(lines))
    return config


def _apply_override(raw: dict[str, Any], override: str, faults: list[str]) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key:
        faults.append(f"override {shown(override)}: expected key=value, such as train.learning_rate=1e-4")
        return
    try:
        value = parse_yaml(text, f"override {shown(override)}")
    except GrandError as error:
        faults.append(str(error))
        return
    *sections, last = key.split(".")
    place: Any = raw
    for section in sections:
        if place.get(section) is None:
            place[section] = {}
        place = place[section]
        if not isinstance(place, dict):
            faults.append(f"override {shown(override)}: {shown(section)} holds a value and has no keys of its own")
            return
    place[last] = value


def _build(kind: Any, raw: Any, where: str, faults: list[str]) -> Any:
    """Turn plain values into ``kind``; faults are collected and a fault gives None."""
    if is_dataclass(kind):
        return _build_dataclass(kind, raw, where, faults)
    origin, options = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _build_union(options, raw, where, faults)
    if origin is Literal:
        if raw in options:
            return raw
        known = [str(option) for option in options]
        hint = _near(raw, known)
        faults.append(f"{where} is {shown(raw)}, expected one of {', '.join(known)}" + (f"; {hint}" if hint else ""))
        return None
    if origin is Mapping:
        if not isinstance(raw, Mapping):
            faults.append(f"{where} is {shown(raw)}, expected names with their values")
            return None
        return {str(key): _build(options[1], value, where, faults) for key, value in raw.items()}
    if origin is tuple:
        if not isinstance(raw, list | tuple):
            faults.append(f"{where} is {shown(raw)}, expected a list")
            return None
        return tuple(_build(options[0], value, f"{where}[{i}]", faults) for i, value in enumerate(raw))
    value = _leaf(kind, raw)
    problem = f"expected {_KINDS[kind]}" if value is None else unfit(value, re.sub(r"\d+", "", where))
    if problem:
        faults.append(f"{where} is {shown(raw)}, {problem}")
        return None
    return value


def _near(value: Any, known: list[str]) -> str:
    near = difflib.get_close_matches(value, known, 1, 0.5) if isinstance(value, str) else []
    return f"did you mean {near[0]!r}?" if near else ""


def _leaf(kind: type, raw: Any) -> Any:
    """``raw`` as ``kind``; None where it is none. Whole numbers stay exact, of any size."""
    if kind in (bool, str):
        return raw if isinstance(raw, kind) else None
    if isinstance(raw, bool) or (isinstance(raw, str) and re.match(r"\s*[-+]?0[0-9_]", raw)):  # 010 is 8 to some, 10 to others
        return None
    if kind is int:
        with contextlib.suppress(TypeError):
            return operator.index(raw)
        if isinstance(raw, str):
            with contextlib.suppress(ValueError):
                return int(raw)
    try:
        number = float(raw)  # YAML reads 1e-4 as text
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number) or (kind is int and not number.is_integer()):
        return None
    return kind(number)


def unfit(value: Any, name: str) -> str:
    """Why a value of the right kind cannot be that of a setting; empty where it can."""
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            return "expected text without NUL characters and half surrogate pairs"
        return "expected a name or a path" if name in PATHS and not value.strip() else ""
    if isinstance(value, bool):
        return ""
    low, high, ends = LIMITS[name]
    above = low < value if ends[0] == "(" else low <= value
    below = value < high if ends[1] == ")" else value <= high
    if above and below:
        return ""
    least = f"more than {low:,}" if ends[0] == "(" else f"{low:,}"
    return f"expected {least} up to{', not including,' if ends[1] == ')' else ''} {high:,}"


_KINDS = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}


def _build_union(options: tuple[Any, ...], raw: Any, where: str, faults: list[str]) -> Any:
    if raw is None and type(None) in options:
        return None
    rest = [option for option in options if option is not type(None)]
    if len(rest) > 1:  # text or a list of texts
        rest = [option for option in rest if (get_origin(option) is tuple) == isinstance(raw, list | tuple)]
    return _build(rest[0], raw, where, faults)


def _build_dataclass(kind: Any, raw: Any, where: str, faults: list[str]) -> Any:
    if raw is None and where:
        raw = {}
    if not isinstance(raw, Mapping):
        faults.append(f"{where} is {shown(raw)}, expected keys: {', '.join(f.name for f in fields(kind))}")
        return None
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind)]
    for key in raw:
        if key not in names:
            hint = _near(key, names) or f"known are: {', '.join(names)}"
            name = shown(key).strip("'")
            faults.append(f"unknown key {where + '.' if where else ''}{name}; {hint}")
    values = {}
    for item in fields(kind):
        path = f"{where}.{item.name}" if where else item.name
        if item.name in raw:
            values[item.name] = _build(hints[item.name], raw[item.name], path, faults)
        elif item.default is MISSING and item.default_factory is MISSING:
            faults.append(f"{path} is missing")
            values[item.name] = None
    return kind(**values)


def _contradictions(config: Config) -> list[str]:
    train, data = config.train, config.data
    faults = []
    if train.warmup_steps > train.num_steps:
        faults.append(f"train.warmup_steps is {train.warmup_steps}, more than train.num_steps = {train.num_steps}")
    if train.global_batch % data.questions_per_scene:
        faults.append(
            f"train.global_batch = {train.global_batch} is not a multiple of data.questions_per_scene = "
            f"{data.questions_per_scene}: a step takes whole scenes"
        )
    if config.model.attention == "flash" and config.model.dtype == "fp32":
        faults.append("model.attention is flash, which takes model.dtype bf16 or fp16; it is fp32")
    if data.train and data.synth:
        faults.append("data.train and data.synth are both set; a run learns from one of them")
    if not config.lora.modules:
        faults.append("lora.modules is empty, expected all-linear or names such as [q_proj, v_proj]")
    if isinstance(config.lora.modules, str):
        try:
            re.compile(config.lora.modules)
        except re.error as error:
            faults.append(
                f"lora.modules is {shown(config.lora.modules)}, which is no regular expression ({error}); "
                "expected all-linear, or a list of names such as [q_proj, v_proj]"
            )
    return faults
