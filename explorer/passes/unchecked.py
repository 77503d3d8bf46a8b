"""Verdict on steps whose values cannot be compared, because a user's reference fails."""

from __future__ import annotations


class Unchecked(str):
    """The reason why values could not be compared, as the end of a sentence about a step."""

    __slots__ = ()
