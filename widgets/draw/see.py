"""Sentences under a picture's title ("What you see") and the marks that their numbers highlight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Mark:
    """A number or a name in a sentence that highlights marks of the picture.

    Pointing at it highlights the marks that have all words of `lights` in their `data-k`.
    Alternatives are separated by bars: "busy|idle tail".
    """

    text: str
    lights: str


Sentence: TypeAlias = tuple[str | Mark, ...]


def lit_by(body: str, keys: str, extra: str = "") -> str:
    """Return marks of a drawing as a group that a sentence highlights by `keys`.

    `keys` are words separated by spaces.
    """
    return f'<g data-k="{escape(keys, quote=True)}"{" " + extra if extra else ""}>{body}</g>'


def sentence_text(sentence: Sentence) -> str:
    """Return a sentence as plain text."""
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def see_part(sentences: Sequence[Sentence]) -> list[list[list[str]]]:
    """Return sentences as JSON: each a list of [text, lights], with lights "" for plain words."""
    return [
        [[part, ""] if isinstance(part, str) else [part.text, part.lights] for part in sentence]
        for sentence in sentences
    ]


def caption_sentences(caption: str) -> tuple[Sentence, ...]:
    """Return at most three clauses of a picture's caption as sentences.

    Used for a picture without sentences of its own.
    """
    clauses = [clause.strip() for clause in caption.split("; ") if clause.strip()]
    return tuple(
        (f"{clause_text[0].upper()}{clause_text[1:].removesuffix('.')}.",)
        for clause_text in clauses[:3]
    )
