"""A text of a kernel's code, each line with the line of the source that it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listing:
    """`lines` has for each line of `text` the line of the source that it comes from, counted from
    1; 0 where it comes from none, or from several. It is empty where that is not known.
    """

    text: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Listings:
    """What a kernel was compiled to; `note` says in a sentence how far the lines can be trusted."""

    llvm: Listing
    assembly: Listing
    note: str
