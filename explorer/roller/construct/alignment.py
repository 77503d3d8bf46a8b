"""Roller's four alignment rules (section 3.2), each a pure function with the number it compares."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil, gcd, lcm

EXECUTION_UNIT = "execution unit"
TRANSACTION = "memory transaction"
BANK = "bank"
SETS = "cache set"
SHAPE = "tensor shape"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a rule holds, the number found, the number that it is compared with, and both in
    words.
    """

    rule: str
    holds: bool
    found: float
    wanted: float
    text: str


def execution_unit(found: int, unit: int, counted: str = "threads") -> Answer:
    """Work comes in whole execution units: threads in warps of all schedulers, columns in vectors.

    `threads % (32 * 4) == 0` on a V100; `columns % 16 == 0` for 16 float32 lanes.
    """
    left = found % unit
    text = f"{found} {counted}, the execution unit takes multiples of {unit}"
    return Answer(EXECUTION_UNIT, found > 0 and not left, found, unit, text)


def memory_transaction(inner: int, full: int, item_bytes: int, transaction_bytes: int) -> Answer:
    """The innermost dim of a data tile is whole transactions, or all that the tensor has."""
    found = inner * item_bytes
    holds = inner >= full or found % transaction_bytes == 0
    text = f"rows of {found} bytes, memory moves {transaction_bytes} bytes at once"
    return Answer(TRANSACTION, holds, found, transaction_bytes, text)


def aligned_base(base: int, item_bytes: int, transaction_bytes: int) -> int:
    """The least multiple of a size that is whole transactions."""
    return lcm(base, max(1, transaction_bytes // item_bytes))


def moved_bytes(inner: int, item_bytes: int, transaction_bytes: int) -> int:
    """What is moved for a row of a data tile, in whole transactions."""
    return ceil(inner * item_bytes / transaction_bytes) * transaction_bytes


def bank_padding(inner: int, read: int, banks: int, bank_items: int = 1) -> int:
    """Elements to add to rows of `inner` elements that are read `read` at a time.

    (B L + ceil(n / L) L - N mod B L) mod B L, with B banks of L elements: neighbouring rows then
    begin ceil(n / L) banks apart. Rows of 4 read one by one from 4 banks take 1.
    """
    line = banks * bank_items
    return (line + ceil(read / bank_items) * bank_items - inner % line) % line


def bank_conflicts(rows: int, stride: int, read: int, banks: int, bank_items: int = 1) -> int:
    """The most different words that one bank must give when `rows` rows are read at once, `read`
    elements of each.
    """
    words = {(r * stride + i) // bank_items for r in range(rows) for i in range(read)}
    return max(Counter(w % banks for w in words).values(), default=0)


def bank(rows: int, stride: int, read: int, banks: int, bank_items: int = 1) -> Answer:
    """No bank gives more words than the read's even share."""
    found = bank_conflicts(rows, stride, read, banks, bank_items)
    wanted = ceil(rows * ceil(read / bank_items) / banks)
    text = f"{found} words from one of {banks} banks, {wanted} would do"
    return Answer(BANK, found <= wanted, found, wanted, text)


def cache_sets(capacity_bytes: int, line_bytes: int, ways: int) -> int:
    """How many sets a cache has."""
    return max(1, capacity_bytes // (line_bytes * max(1, ways)))


def set_conflicts(rows: int, stride_bytes: int, line_bytes: int, sets: int) -> int:
    """The most rows that begin in one set of a cache; where they begin comes again after a period,
    so that millions of rows are as quick as those of one.
    """
    if rows <= 0:
        return 0
    period = sets * line_bytes // gcd(stride_bytes, sets * line_bytes)
    times, rest = divmod(rows, period)
    begins = [r * stride_bytes // line_bytes % sets for r in range(min(rows, period))]
    found = Counter(begins[:rest])
    if times:
        found.update({s: times * n for s, n in Counter(begins).items()})
    return max(found.values())


def set_padding(rows: int, stride_bytes: int, line_bytes: int, sets: int, ways: int) -> int:
    """The fewest whole lines, in bytes, to add to rows so that a set is given no more rows than it
    holds.

    Rows 4096 bytes apart all begin in one of 64 sets of 64 bytes; one line more and none share.
    """
    most = max(ways, ceil(rows / sets))
    paddings = (lines * line_bytes for lines in range(sets))
    fits = (p for p in paddings if set_conflicts(rows, stride_bytes + p, line_bytes, sets) <= most)
    return next(fits, 0)


def cache_set(rows: int, stride_bytes: int, line_bytes: int, sets: int, ways: int) -> Answer:
    """No set of a cache is given more rows than it holds."""
    found = set_conflicts(rows, stride_bytes, line_bytes, sets)
    wanted = max(ways, ceil(rows / sets))
    text = f"{found} rows {stride_bytes} bytes apart begin in one set, which holds {ways} lines"
    return Answer(SETS, found <= wanted, found, wanted, text)


def wasted(extent: int, tile: int) -> float:
    """What the last tile computes beyond the tensor, as a part of it: (S - N mod S) / N, 0 where it
    ends there.
    """
    return -extent % tile / extent if extent else 0.0


def keeps_shape(extent: int, tile: int, eps: float) -> bool:
    """Whether tiles reach past the end of an axis by no more than eps of it."""
    return -(-extent // tile) * tile <= extent * (1 + eps)


def keeping_shape(extent: int, tiles: tuple[int, ...], eps: float) -> tuple[int, ...]:
    """Those of which `keeps_shape`."""
    most = extent * (1 + eps)
    return tuple([t for t in tiles if -(-extent // t) * t <= most])


def tensor_shape(extent: int, tile: int, eps: float) -> Answer:
    """`keeps_shape`, with the part that is wasted."""
    found, holds = wasted(extent, tile), keeps_shape(extent, tile, eps)
    text = f"tiles of {tile} waste {found:.3g} of {extent}, eps is {eps:.2g}"
    return Answer(SHAPE, holds, found, eps, text)
