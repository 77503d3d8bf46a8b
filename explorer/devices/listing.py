"""Listings of a kernel's code with the source line of each of their lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listing:
    """A listing with source lines.

    `lines` has for each line of `text` its source line, counted from 1; 0 stands for none or for
    several. It is empty if source lines are unknown.
    """

    text: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Listings:
    """The compiled forms of a kernel; `note` says in a sentence how far lines can be trusted."""

    llvm: Listing
    assembly: Listing
    note: str
