"""YAML as configurations need it: plain values, and one message for whatever else a text may hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from grand3d.errors import GrandError
from grand3d.files import read_text, shown
from grand3d.jsons import MAX_DEPTH

MAX_CHARACTERS = 200_000
"""A configuration has some thousand; reading takes seconds above this."""

TOO_DEEP = "nested too deeply; a configuration has sections, and lists in them"


def read_yaml(path: str | Path) -> Any:
    """The value of a YAML file.

    Raises:
        GrandError: If the file cannot be read, or as ``parse_yaml``.
    """
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """YAML to values: mappings, lists, texts, numbers, true, false and null. A date stays text, and so
    does what is a number or a truth value in YAML 1.1 only: 010, 10:00, yes, off.

    Args:
        where: What a message starts with.

    Raises:
        GrandError: If the text is not YAML, or holds what could be misread or never ends: a key twice, a part that repeats
            another one (``*name``), a type written out (``!!int 010``, which is 8 in YAML 1.1), endless nesting.
    """
    if len(text) > MAX_CHARACTERS:
        raise GrandError(f"{where}: {len(text):,} characters, expected at most {MAX_CHARACTERS:,}; is it a configuration?")
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = f"the character U+{ord(text[error.position]):04X} in line {line}; is it UTF-16, or no text at all?"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        reason = ", ".join(part for part in (error.context, error.problem) if part) + place
    except RecursionError:
        reason = TOO_DEEP
    raise GrandError(f"{where}: not YAML: {reason}")


_FORMS = {
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)",
    "float": r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
"""PyYAML's without those of YAML 1.1 that are misread: 010 would be 8, 10:00 would be 600, and no would be false."""
_TEXT = ("timestamp", "merge", "value")


def _resolver(tag: str, form: re.Pattern[str]) -> tuple[str, re.Pattern[str]]:
    own = _FORMS.get(tag.rpartition(":")[2])
    return tag, form if own is None else re.compile(rf"(?:{own})\Z")


class _Loader(yaml.SafeLoader):
    """YAML's safe subset without dates, merge keys, aliases and tags; a key that stands twice is refused, none wins."""

    yaml_implicit_resolvers: ClassVar = {
        first: [_resolver(tag, form) for tag, form in forms if tag.rpartition(":")[2] not in _TEXT]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # a few lines of them can stand for billions of values, or for themselves
            event = self.peek_event()
            reason = f"*{event.anchor} would repeat another part of the file, which is not read here; write that part out"
            raise yaml.composer.ComposerError(None, None, reason, event.start_mark)
        event = self.peek_event()
        if event.tag is not None:  # it would bring back the forms of YAML 1.1, and values of other kinds
            name = event.tag.replace("tag:yaml.org,2002:", "!!")
            reason = f"the type {shown(name)} is not read here; write the value alone, in quotes where it is text"
            raise yaml.composer.ComposerError(None, None, reason, event.start_mark)
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= MAX_DEPTH:  # the time to read on would grow with the square of the depth
            raise yaml.scanner.ScannerError(None, None, TOO_DEEP, self.get_mark())
        super().fetch_flow_collection_start(token)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception:  # a number of thousands of digits
            reason = f"{shown(node.value)} cannot be read as {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is no text", key_node.start_mark)
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {shown(key)} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)
