"""ViGiL3D's measures of one parsed expression, under the names of the columns of its file."""

from __future__ import annotations

from typing import Any

from grand3d.language import lexicon as lex
from grand3d.language.parse import Parse, Thing
from grand3d.language.understand import understand

ATTRIBUTE_TYPES = ("color", "size", "shape", "number", "material", "texture", "function", "style", "text_label", "state")
RELATION_TYPES = ("near", "far", "viewpoint_dependent", "vertical", "contain", "arrangement", "ordinal", "comparison")
ANCHOR_TYPES = ("single", "multiple", "non_object", "viewpoint")
GRANULARITIES = ("generic", "categorical", "fine-grained")
COUNTS = ("num_attributes_target", "num_attributes_anchors", "num_relationships_target", "num_relationships_anchors")
_NO_ANCHOR = ("text", "activity", "part", "viewer")
_DISTANCES = ("close", "near", "far")


def measure(expression: str | Parse) -> dict[str, Any]:
    """The columns of ViGiL3D's file that say what the language of an expression is like.

    Returns:
        Four counts, flags 0 or 1 of the types of attributes, relations and anchors, of coreference, of a target that is not
        what is named first and of negation, and ``granularity``.
    """
    parse = understand(expression) if isinstance(expression, str) else expression
    mine = [thing for k, thing in enumerate(parse.things) if k in parse.same]
    anchors = {k: thing for k, thing in enumerate(parse.things) if k not in parse.same and _is_anchor(thing)}
    of_target = [relation for relation in parse.relations if relation.subject is None or relation.subject in parse.same]
    out: dict[str, Any] = {
        "num_attributes_target": len({attribute for thing in mine for attribute in thing.attributes}),
        "num_attributes_anchors": sum(len(thing.attributes) for thing in anchors.values()),
        "num_relationships_target": len(of_target),
        "num_relationships_anchors": len(parse.relations) - len(of_target),
    }
    said = [thing for thing in parse.things if thing.role not in ("activity", "excluded")]
    kinds = {kind for thing in said for kind, _ in thing.attributes}
    out |= {f"num_attribute_type_{kind}": int(kind in kinds) for kind in ATTRIBUTE_TYPES}
    stated = {kind for relation in parse.relations for kind in relation.kinds}
    out |= {f"num_relationship_type_{kind}": int(kind in stated) for kind in RELATION_TYPES}
    out["num_coreferences"] = int(bool(parse.coreferences))
    out["num_target_not_first_np"] = int(_target_comes_later(parse))
    out["granularity"] = granularity(parse)
    out["num_anchor_type_single"] = int(_single(parse, anchors))
    out["num_anchor_type_multiple"] = int(_multiple(parse, mine, list(anchors.values())))
    out["num_anchor_type_non_object"] = int(any(thing.role == "region" for thing in anchors.values()))
    out["num_anchor_type_viewpoint"] = int(bool(parse.viewpoints))
    out["num_negation"] = int(bool(parse.negations))
    return out


def _is_anchor(thing: Thing) -> bool:
    return thing.role not in (*_NO_ANCHOR, "excluded") and thing.head not in lex.ABSTRACT | lex.MASSES


def _target_comes_later(parse: Parse) -> bool:
    """Whether something else is named before the target, or first a set that the target is then picked from."""
    first = next((k for k, thing in enumerate(parse.things) if thing.role not in _NO_ANCHOR), None)
    if parse.target is None or first is None:
        return False
    from_set = first < parse.target and parse.things[first].plural
    return first not in parse.same or from_set


def _single(parse: Parse, anchors: dict[int, Thing]) -> bool:
    """Whether a single object is an anchor; the two of "between a and b" are one anchor of several."""
    between = {k for r in parse.relations if "between" in r.text and r.object is not None for k in (r.object, r.object + 1)}
    return any(not thing.plural and thing.role == "object" for k, thing in anchors.items() if k not in between)


def _picked(parse: Parse, thing: Thing) -> bool:
    """Whether a thing is one among others: "the third", "the only one"."""
    return thing.ordinal or any(token.lower == "only" for token in parse.tokens[thing.start : thing.end])


def _multiple(parse: Parse, mine: list[Thing], anchors: list[Thing]) -> bool:
    """Whether several objects are an anchor, also those that something is counted, arranged or compared among."""
    if any(thing.plural and thing.role == "object" for thing in anchors) or any(_picked(parse, thing) for thing in mine):
        return True
    if any("arrangement" in relation.kinds and relation.text not in ("set", "pile") for relation in parse.relations):
        return True
    for thing in (*mine, *anchors):
        after = parse.tokens[thing.end : thing.end + 1]
        of_all = bool(after) and after[0].lower == "of"
        if any(stem not in _DISTANCES and (degree == "est" or of_all) for stem, degree in thing.degrees):
            return True
    return False


def granularity(parse: Parse) -> str:
    """How exactly the target is named: by its kind, by a class of kinds, or not at all; the most exact name counts."""
    kinds = {
        _granularity(parse.things[k]) for k in parse.same if parse.things[k].head != "one" and parse.things[k].role != "activity"
    }
    return next((kind for kind in reversed(GRANULARITIES) if kind in kinds), "generic")


def _granularity(thing: Thing) -> str:
    compound = thing.head in lex.CATEGORY_SECOND and bool(thing.names)
    place = thing.head in ("place", "surface", "spot") and any(kind == "function" for kind, _ in thing.attributes)
    if compound or place or thing.head in lex.CATEGORIES:
        return "categorical"
    return "generic" if thing.head in lex.GENERIC else "fine-grained"
