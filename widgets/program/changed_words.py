"""Which lines of two texts are one that changed, and which of its words are different."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

ALIKE = 0.4  # share of words that two lines have in common to be one that changed; chosen
MOST = 80  # words that are compared one by one; of more all between the equal ends is different
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Spans = tuple[tuple[int, int], ...]  # from a letter to the one behind the last


def aligned(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The lines that are one, in the order of both: what alone defines the same value first, then
    between them lines that define the same, or have enough words in common.
    """
    found: list[tuple[int, int]] = []
    a = b = 0
    for i, j in (*_anchors(old, new), (len(old), len(new))):
        found += _between(old, new, (a, i), (b, j))
        if i < len(old):
            found.append((i, j))
        a, b = i + 1, j + 1
    return found


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The lines that define what no other one does, as many as are in the order of both."""
    first, second = _alone(old), _alone(new)
    pairs = sorted((i, second[head]) for head, i in first.items() if head in second)
    ends: list[int] = []  # of rising rows of each length, and which pair ends them
    last: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        ends[at : at + 1], last[at : at + 1] = [j], [n]
        before.append(last[at - 1] if at else -1)
    found, n = list[tuple[int, int]](), last[-1] if last else -1
    while n >= 0:
        found.append(pairs[n])
        n = before[n]
    return found[::-1]


def _alone(lines: Sequence[str]) -> dict[str, int]:
    """Where the lines are that define what no other one does."""
    heads = [_head(line) for line in lines]
    count = Counter(heads)
    return {head: n for n, head in enumerate(heads) if count[head] == 1}


def _head(line: str) -> str:
    """What a line defines; of one that defines nothing, all of it."""
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
    """Where the words are that one line has and the other has not; without `each`, all between the
    first and the last of them.
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
    """Ranges of words as ranges of letters; those with nothing but a space between are one."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    found: list[tuple[int, int]] = []
    for a, b in ranges:
        if a == b:
            continue
        gap = "".join(words[_word_at(starts, found[-1][1]) : a]) if found else "x"
        if found and not gap.strip():
            found[-1] = (found[-1][0], starts[b])
        else:
            found.append((starts[a], starts[b]))
    return tuple(found)


def _word_at(starts: Sequence[int], letter: int) -> int:
    return starts.index(letter)
