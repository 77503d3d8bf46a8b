"""The sentences under a picture's title ("What you see") and the marks that their numbers light."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Mark:
    """A number or a name in a sentence; pointing at it lights the marks of the picture that have
    all words of `lights` in their `data-k`. Alternatives stand between bars: "busy|idle tail".
    """

    text: str
    lights: str


Sentence: TypeAlias = tuple[str | Mark, ...]


def lit_by(body: str, keys: str, extra: str = "") -> str:
    """Return marks of a drawing as a group that a sentence lights by `keys`, words with spaces
    between.
    """
    return f'<g data-k="{escape(keys, quote=True)}"{" " + extra if extra else ""}>{body}</g>'


def sentence_text(sentence: Sentence) -> str:
    """Return a sentence without its marks."""
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def see_part(sentences: Sequence[Sentence]) -> list[list[list[str]]]:
    """Return sentences as JSON: of each its parts as [text, lights], lights "" for plain words."""
    return [
        [[part, ""] if isinstance(part, str) else [part.text, part.lights] for part in sentence]
        for sentence in sentences
    ]


def of_caption(caption: str) -> tuple[Sentence, ...]:
    """Return the clauses of a picture's caption as sentences, three at most: for a picture that
    says none of its own.
    """
    clauses = [clause.strip() for clause in caption.split("; ") if clause.strip()]
    return tuple((f"{one[0].upper()}{one[1:].removesuffix('.')}.",) for one in clauses[:3])
