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
class RuleCheck:
    """The result of one rule: the number, the limit that it is compared with, and both in words."""

    rule: str
    holds: bool
    value: float
    limit: float
    text: str


def execution_unit(count: int, unit: int, counted: str = "threads") -> RuleCheck:
    """Check that work comes in whole execution units.

    Units are threads in warps of all schedulers, or columns in vectors: `threads % (32 * 4) == 0`
    on a V100; `columns % 16 == 0` for 16 float32 lanes.
    """
    left = count % unit
    text = f"{count} {counted}, the execution unit takes multiples of {unit}"
    return RuleCheck(EXECUTION_UNIT, count > 0 and not left, count, unit, text)


def memory_transaction(inner: int, full: int, item_bytes: int, transaction_bytes: int) -> RuleCheck:
    """Check that the innermost dim of a data tile is whole transactions, or the full dim."""
    row_bytes = inner * item_bytes
    holds = inner >= full or row_bytes % transaction_bytes == 0
    text = f"rows of {row_bytes} bytes, memory moves {transaction_bytes} bytes at once"
    return RuleCheck(TRANSACTION, holds, row_bytes, transaction_bytes, text)


def aligned_base(base: int, item_bytes: int, transaction_bytes: int) -> int:
    """Return the least multiple of a size that is whole transactions."""
    return lcm(base, max(1, transaction_bytes // item_bytes))


def moved_bytes(inner: int, item_bytes: int, transaction_bytes: int) -> int:
    """Return the bytes moved for a row of a data tile, in whole transactions."""
    return ceil(inner * item_bytes / transaction_bytes) * transaction_bytes


def bank_padding(inner: int, read: int, banks: int, bank_items: int = 1) -> int:
    """Return the elements to add to rows of `inner` elements that are read `read` at a time.

    (B L + ceil(n / L) L - N mod B L) mod B L, with B banks of L elements: neighbouring rows then
    begin ceil(n / L) banks apart. Rows of 4 read one by one from 4 banks take 1.
    """
    line = banks * bank_items
    return (line + ceil(read / bank_items) * bank_items - inner % line) % line


def bank_conflicts(rows: int, stride: int, read: int, banks: int, bank_items: int = 1) -> int:
    """Return the most different words that one bank must deliver for one read.

    `rows` rows are read at once, `read` elements of each.
    """
    words = {(r * stride + i) // bank_items for r in range(rows) for i in range(read)}
    return max(Counter(w % banks for w in words).values(), default=0)


def bank(rows: int, stride: int, read: int, banks: int, bank_items: int = 1) -> RuleCheck:
    """Check that no bank delivers more words than the read's even share."""
    words = bank_conflicts(rows, stride, read, banks, bank_items)
    even_share = ceil(rows * ceil(read / bank_items) / banks)
    text = f"{words} words from one of {banks} banks, {even_share} would do"
    return RuleCheck(BANK, words <= even_share, words, even_share, text)


def cache_sets(capacity_bytes: int, line_bytes: int, associativity: int) -> int:
    """Return the number of sets of a cache."""
    return max(1, capacity_bytes // (line_bytes * max(1, associativity)))


def set_conflicts(rows: int, stride_bytes: int, line_bytes: int, sets: int) -> int:
    """Return the most rows that begin in one set of a cache.

    The sets repeat after a period, so that millions of rows take no longer than one period.
    """
    if rows <= 0:
        return 0
    period = sets * line_bytes // gcd(stride_bytes, sets * line_bytes)
    times, remainder = divmod(rows, period)
    begins = [r * stride_bytes // line_bytes % sets for r in range(min(rows, period))]
    rows_by_set = Counter(begins[:remainder])
    if times:
        rows_by_set.update({s: times * n for s, n in Counter(begins).items()})
    return max(rows_by_set.values())


def set_padding(
    rows: int, stride_bytes: int, line_bytes: int, sets: int, associativity: int
) -> int:
    """Return the fewest whole lines, in bytes, to add to rows so that no set overflows.

    Rows 4096 bytes apart all begin in one of 64 sets of 64 bytes; with one more line none share.
    """
    most = max(associativity, ceil(rows / sets))
    paddings = (lines * line_bytes for lines in range(sets))
    fits = (p for p in paddings if set_conflicts(rows, stride_bytes + p, line_bytes, sets) <= most)
    return next(fits, 0)


def cache_set(
    rows: int, stride_bytes: int, line_bytes: int, sets: int, associativity: int
) -> RuleCheck:
    """Check that no set of a cache gets more rows than it holds."""
    conflicts = set_conflicts(rows, stride_bytes, line_bytes, sets)
    limit = max(associativity, ceil(rows / sets))
    rows_text = f"{conflicts} rows {stride_bytes} bytes apart"
    text = f"{rows_text} begin in one set, which holds {associativity} lines"
    return RuleCheck(SETS, conflicts <= limit, conflicts, limit, text)


def wasted(extent: int, tile: int) -> float:
    """Return the part that the last tile computes out of bounds: (S - N mod S) / N, else 0."""
    return -extent % tile / extent if extent else 0.0


def keeps_shape(extent: int, tile: int, eps: float) -> bool:
    """Return True if tiles reach past the end of an axis by no more than eps of it."""
    return -(-extent // tile) * tile <= extent * (1 + eps)


def keeping_shape(extent: int, tiles: tuple[int, ...], eps: float) -> tuple[int, ...]:
    """Return the tiles for which `keeps_shape` holds."""
    most = extent * (1 + eps)
    return tuple([t for t in tiles if -(-extent // t) * t <= most])


def tensor_shape(extent: int, tile: int, eps: float) -> RuleCheck:
    """Check `keeps_shape`, with the part that is wasted."""
    waste, holds = wasted(extent, tile), keeps_shape(extent, tile, eps)
    text = f"tiles of {tile} waste {waste:.3g} of {extent}, eps is {eps:.2g}"
    return RuleCheck(SHAPE, holds, waste, eps, text)
