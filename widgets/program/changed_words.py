"""Pairs of lines of two texts that are one changed line, and the words that differ."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

ALIKE = 0.4  # share of words that two lines have in common to be one that changed; chosen
MOST = 80  # most words that are compared one by one; else all between the equal ends differs
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Spans = tuple[tuple[int, int], ...]  # half-open ranges of letters


def align_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of lines that correspond, in the order of both.

    Lines that alone define a value are paired first. Between them, lines are paired that define the
    same value or share enough words.
    """
    pairs: list[tuple[int, int]] = []
    a = b = 0
    for i, j in (*_anchors(old, new), (len(old), len(new))):
        pairs += _between(old, new, (a, i), (b, j))
        if i < len(old):
            pairs.append((i, j))
        a, b = i + 1, j + 1
    return pairs


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines that define a unique value in both texts, as many as are in order."""
    first, second = _unique_heads(old), _unique_heads(new)
    pairs = sorted((i, second[head]) for head, i in first.items() if head in second)
    ends: list[int] = []  # last elements of increasing subsequences, by length
    last: list[int] = []  # the pairs of these elements
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        ends[at : at + 1], last[at : at + 1] = [j], [n]
        before.append(last[at - 1] if at else -1)
    chain, n = list[tuple[int, int]](), last[-1] if last else -1
    while n >= 0:
        chain.append(pairs[n])
        n = before[n]
    return chain[::-1]


def _unique_heads(lines: Sequence[str]) -> dict[str, int]:
    """Return the positions of the lines whose definition is unique."""
    heads = [_head(line) for line in lines]
    count = Counter(heads)
    return {head: n for n, head in enumerate(heads) if count[head] == 1}


def _head(line: str) -> str:
    """Return the part of a line that it defines; all of a line that defines nothing."""
    return line.split(" = ")[0]


def _between(
    old: Sequence[str], new: Sequence[str], a: tuple[int, int], b: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    first = b[0]
    for i in range(*a):
        words = set(_WORD.findall(old[i]))
        for j in range(first, min(b[1], first + 4)):
            other = set(_WORD.findall(new[j]))
            same = _head(old[i]) == _head(new[j])
            if same or len(words & other) >= ALIKE * len(words | other):
                yield i, j
                first = j + 1
                break


def spans(old: str, new: str, each: bool = True) -> tuple[Spans, Spans]:
    """Return the positions of the words that only one of two lines has.

    Without `each`, everything between the first and the last of them.
    """
    first, second = _WORD.findall(old), _WORD.findall(new)
    head = 0
    while head < min(len(first), len(second)) and first[head] == second[head]:
        head += 1
    tail = 0
    while tail < min(len(first), len(second)) - head and first[-1 - tail] == second[-1 - tail]:
        tail += 1
    middle = first[head : len(first) - tail], second[head : len(second) - tail]
    if not each or max(map(len, middle)) > MOST or not all(middle):
        changed = [(0, len(middle[0]), 0, len(middle[1]))]
    else:
        codes = SequenceMatcher(None, middle[0], middle[1], False).get_opcodes()
        changed = [(a, b, c, d) for kind, a, b, c, d in codes if kind != "equal"]
    return (
        _letters(first, [(head + a, head + b) for a, b, _, _ in changed]),
        _letters(second, [(head + c, head + d) for _, _, c, d in changed]),
    )


def _letters(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> Spans:
    """Return ranges of words as ranges of letters; ranges with only a space between are merged."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    ranges_of_letters: list[tuple[int, int]] = []
    for a, b in ranges:
        if a == b:
            continue
        gap = (
            "".join(words[_word_at(starts, ranges_of_letters[-1][1]) : a])
            if ranges_of_letters
            else "x"
        )
        if ranges_of_letters and not gap.strip():
            ranges_of_letters[-1] = (ranges_of_letters[-1][0], starts[b])
        else:
            ranges_of_letters.append((starts[a], starts[b]))
    return tuple(ranges_of_letters)


def _word_at(starts: Sequence[int], letter: int) -> int:
    return starts.index(letter)
