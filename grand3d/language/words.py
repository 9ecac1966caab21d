"""Tokens of a text and what a word form says: its base, degree, number and part of speech."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grand3d.language import lexicon as lex

_TOKEN = re.compile(
    r"[\"“”](?P<quote>[^\"“”]*)[\"“”]|(?<![\w'])[‘'](?P<single>[^'‘’]{1,60})['’](?!\w)"
    r"|\d+%?(?:[a-z]{2})?(?:-[A-Za-z]+)*|[^\W\d_]+(?:[-'’][^\W_]+)*|\S"
)
_ADJECTIVES = frozenset().union(*lex.ATTRIBUTES.values())
_DISTANCES = {"close", "near", "far"}
_COMPARED = (
    _ADJECTIVES | _DISTANCES | {"early", "late", "light", "few", "good", "heavy", "young", "strong", "shady", "nice", "up"}
)
_IRREGULAR = {"better": "good", "best": "good", "worse": "bad", "worst": "bad", "farther": "far", "farthest": "far"}
_IRREGULAR |= {"further": "far", "furthest": "far", "fewer": "few", "fewest": "few", "nearer": "near", "nearest": "near"}
_SINGULARS = {"shelves": "shelf", "knives": "knife", "leaves": "leaf", "people": "person", "feet": "foot", "loaves": "loaf"}
_SINGULARS |= {"mice": "mouse", "children": "child", "men": "man", "women": "woman", "scarves": "scarf", "halves": "half"}
_NO_PLURAL = ("ss", "us", "is", "as", "os", "ics")
_ALWAYS_SINGULAR = {"gas", "lens", "canvas", "bus", "chaos", "news", "tennis"}
_SUFFIXES = ("ish", "ous", "ive", "able", "ible", "ful", "less", "ical", "-like", "-free", "-mounted", "-powered", "-controlled")
_HYPHENS = {"shaped": "shape", "style": "style", "styled": "style", "looking": "style", "colored": "color", "coloured": "color"}
_HYPHENS |= {"inspired": "style", "themed": "style", "esque": "style", "era": "style", "type": "style", "built": "style"}
_HYPHENS |= {"size": "size", "sized": "size", "patterned": "texture", "textured": "texture", "top": "material"}


@dataclass(slots=True)
class Token:
    """A word, mark or quotation; ``tag`` is its part of speech in this text.

    Attributes:
        text: As written; a quotation without its marks.
        lower: The same in lower case.
        start, end: Characters of the text that it covers.
        tag: One of DET POS PRO ONE BE HAVE MODAL REL CONJ NEG NUM ORD ADJ ADV PREP VERB N QUOTE P.
    """

    text: str
    lower: str
    start: int
    end: int
    tag: str = ""


def tokens(text: str) -> list[Token]:
    """Split a text into words, marks and quotations, and say which part of speech each is."""
    out = []
    for found in _TOKEN.finditer(text):
        quote = found["quote"] if found["quote"] is not None else found["single"]
        word = found.group() if quote is None else quote
        short = _SHORT.search(word) if quote is None else None
        cut = found.start() + short.start() if short is not None and short.start() else found.end()
        out.append(_token(text, found.start(), cut) if quote is None else Token(word, word.lower(), *found.span(), "QUOTE"))
        if cut < found.end():
            out.append(_token(text, cut, found.end()))
    for k in range(len(out)):
        if not out[k].tag:
            out[k].tag = _tag(out, k)
    return out


def _token(text: str, start: int, end: int) -> Token:
    return Token(text[start:end], text[start:end].lower().replace("’", "'"), start, end)


def base(word: str) -> tuple[str, str]:
    """An adjective without its degree, and the degree: ``er``, ``est`` or nothing."""
    if word in lex.AGENTS:
        return word, ""
    if word in _IRREGULAR:
        return _IRREGULAR[word], "est" if word.endswith("st") else "er"
    stem = word.split("-")[-1] if word.startswith(("left", "right")) else word
    for ending in ("est", "er"):
        if stem.endswith(ending):
            root = stem[: -len(ending)]
            for candidate in (root, root + "e", root[:-1], root[:-1] + "y"):
                if candidate in _COMPARED and candidate != word and len(candidate) > 1:
                    return candidate, ending
    return word, ""


def singular(word: str) -> str:
    """The singular of a noun; the word itself where it is one."""
    if word in _SINGULARS:
        return _SINGULARS[word]
    if not is_plural(word):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "zes")):
        return word[:-2]
    return word[:-1]


def is_plural(word: str) -> bool:
    """Whether a noun has a plural's form: "shelves", "bins"; not "glass"."""
    if word in _SINGULARS:
        return True
    return len(word) > 3 and word.endswith("s") and not word.endswith(_NO_PLURAL) and word not in _ALWAYS_SINGULAR


def attribute_kind(word: str) -> str:
    """The type of attribute that an adjective or a noun used as one names, or nothing."""
    stem = base(word)[0]
    if word in lex.POSITIONAL:
        return ""
    for kind, members in lex.ATTRIBUTES.items():
        if stem in members or word in members:
            return kind
    parts = word.split("-")
    if len(parts) > 1:
        if parts[-1] in _HYPHENS:
            return _HYPHENS[parts[-1]]
        kinds = [attribute_kind(part) for part in parts]
        if kinds[0] == "number":
            return "number"
        return next((kind for kind in kinds if kind), "")
    if word.isdigit():
        return "number"
    if word.endswith(("y", "ic", "al")) and len(word) > 4 and _adjectival(word):
        return "texture" if word.endswith("y") else "style"
    if word.endswith(("esque", "ese", "ical", "istic", "istic", "ional")) or (
        word.endswith("ian") and word not in lex.PEOPLE_IAN
    ):
        return "style"
    return ""


def _adjectival(word: str) -> bool:
    """Whether a word that no list holds has the form of an adjective: "grassy", "floral", "rustic"."""
    return word not in lex.NO_ADJECTIVES and not word.endswith(
        ("ary", "ory", "ity", "ally", "ology", "phy", "ncy", "ery", "ly", "ey", "ay")
    )


def is_number(word: str) -> bool:
    return word.isdigit() or word in lex.ATTRIBUTES["number"]


_SHORT = re.compile(r"['’](?:s|re|m|ll|d|ve)$", re.IGNORECASE)
_SHORTENED = {"'re": "BE", "'m": "BE", "'ll": "MODAL", "'d": "MODAL", "'ve": "HAVE"}
_BEFORE_IS = ("there", "here", "what", "where", "who", "that", "it")
_PAPER = ("bag", "bags", "cup", "cups", "box", "plate", "plates", "sack", "lantern")
"""What paper is the material of, rather than the use."""
_AFTER_CAN = ("", ".", ",", "with", "on", "in", "under", "near", "next", "is", "to", "that", "which")
_CLOSED: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"its", "their", "your", "my", "his", "her", "our"}), "POS"),
    (lex.PRONOUNS | {"i", "you", "we", "he", "she", "me", "us", "him", "yourself", "someone", "people", "person"}, "PRO"),
    (frozenset({"not", "never", "n't"}), "NEG"),
    (lex.BE, "BE"),
    (lex.MODALS, "MODAL"),
    (lex.CONJUNCTIONS, "CONJ"),
    (frozenset({"if", "when", "while", "once", "because", "since", "as", "then", "whereas", "although", "though"}), "SUB"),
    (frozenset({"which", "who", "whose", "where", "whom"}), "REL"),
)
_OPEN = ("", "N", "ADJ")


def _tag(row: list[Token], k: int) -> str:
    """The part of speech of token ``k``; the tokens before it have theirs."""
    word = row[k].lower
    before = row[k - 1] if k else Token("", "", 0, 0, "P")
    after = row[k + 1].lower if k + 1 < len(row) else ""
    j = k - 1
    while j > 0 and row[j].tag == "ADV":
        j -= 1
    inside = k > 0 and row[j].tag in ("DET", "POS", "ADJ", "NUM", "ORD")
    return _closed_class(word, before, after, inside) or _open_class(word, before, after, inside)


def _closed_class(word: str, before: Token, after: str, inside: bool) -> str:
    """The tag of a word of a class that can be listed; empty for others. ``inside``: its noun phrase has begun."""
    if word == "'s":
        return "BE" if before.tag in ("PRO", "REL", "DET") or before.lower in _BEFORE_IS else "POS"
    if not word[0].isalnum():
        return _SHORTENED.get(word, "P")
    if word in ("one", "ones"):
        return "PRO" if after in lex.MODALS or after == "usually" else "ONE"
    if word in ("that", "this", "these", "those"):
        return _demonstrative(word, before, after)
    if word in ("can", "cans") and (before.lower in lex.BEFORE_CAN or after in _AFTER_CAN):
        return "N"
    for members, tag in _CLOSED:
        if word in members:
            return tag
    begun = before.lower in ("", ".", ",", "please", "and", "then")
    if word in lex.SEEK and begun and (after in lex.DETERMINERS or after == "for"):
        return "VERB"
    if word in lex.HAVE and not (inside and word in ("hold", "feature", "features")):
        return "HAVE"
    if word in lex.DETERMINERS or word in ("what", "whichever"):
        return "DET"
    if word in lex.ORDINALS:
        return "N" if word == "middle" and not _nounlike(after) else "ORD"
    if is_number(word):
        return "NUM"
    if word in lex.SIDES or word in lex.LEVELS:
        if inside and _nounlike(after):
            return "ADJ"
        return "ADV" if word in ("left", "right") and before.tag in ("BE", "N", "PRO") else "N"
    stem, degree = base(word)
    if stem in _DISTANCES:
        closest = degree and before.tag not in ("N", "ONE", "BE")
        return "ADJ" if _nounlike(after) and (inside or closest) else "PREP"
    if word in lex.PREPOSITIONS and not (word == "inside" and before.lower == "the"):
        return "PREP"
    return "ADV" if word in lex.DEGREES else "ADJ" if degree else ""


def _open_class(word: str, before: Token, after: str, inside: bool) -> str:
    """Adjective, noun, verb or adverb, by the lists, else by endings and neighbours."""
    if word == "paper" and after in _PAPER:
        return "ADJ"
    if word == "made" and after in ("of", "from", "out", "up"):
        return "VERB"
    if attribute_kind(word):
        if word in ("made", "used", "covered", "hung") and before.tag in ("BE", "N") and not inside:
            return "VERB"
        said = before.tag in ("BE", "ADV", "CONJ", "P", "VERB", "HAVE")
        noun = word in lex.ATTRIBUTES["material"] | lex.ADJECTIVES_AND_NOUNS
        closed = word in ("closed", "stuffed") and before.tag == "N" and not inside
        return "ADJ" if said or closed or not noun or _nounlike(after) else "N"
    if word in lex.POSITIONAL and _nounlike(after):
        return "ADJ"
    if word in lex.NOUNS:
        return "N"
    if before.tag == "REL" and word.endswith("s") and before.lower != "whose":
        return "VERB"
    if word in lex.ADVERBS and not (before.tag in ("DET", "POS") and not _nounlike(after)):
        return "ADV"
    verb = word in lex.OTHER_VERBS or word in lex.SEEK
    if verb or word.endswith(("ing", "ed")):
        if inside:
            return "ADJ" if word.endswith(("ing", "ed", "n")) and _nounlike(after) else "N"
        bare = word not in lex.CHOOSE and not word.endswith(("s", "ed", "ing", "t"))
        if bare and before.tag == "N" and not is_plural(before.lower):
            return "N"  # "a book display"
        if verb or before.tag in ("BE", "REL", "ADV", "N", "PREP", "P", "CONJ", "QUOTE"):
            return "VERB"
    if word.endswith("ly") and word not in ("family", "assembly", "supply", "trolley"):
        return "ADV"
    graded = before.lower in lex.GRADES or (before.tag == "BE" and not is_plural(word))
    if graded and (before.tag == "BE") != _nounlike(after) and after != "of" and len(word) > 3:
        return "ADJ"
    return "ADJ" if word.endswith(_SUFFIXES) and (_nounlike(after) or before.tag in ("BE", "ADV")) else "N"


def _demonstrative(word: str, before: Token, after: str) -> str:
    if after in lex.BE or after in lex.MODALS or after in lex.HAVE:
        return "REL" if word == "that" and before.tag not in ("P", "") else "PRO"
    if word == "that" and before.tag in ("N", "ONE", "QUOTE", "ADJ"):
        return "REL"
    if after in lex.PREPOSITIONS or not after or not after[0].isalnum():
        return "PRO"
    return "DET"


_NO_NOUN = (
    lex.PREPOSITIONS
    | lex.DETERMINERS
    | lex.BE
    | lex.HAVE
    | lex.MODALS
    | lex.CONJUNCTIONS
    | lex.RELATIVES
    | lex.PRONOUNS
    | {"not", "you", "your", "i", "me", "also", "when", "if"}
)


def _nounlike(word: str) -> bool:
    """Whether the next word may go on a noun phrase."""
    if not word or not word[0].isalnum():
        return False
    return word in ("one", "ones") or word in lex.ORDINALS or is_number(word) or word not in _NO_NOUN
