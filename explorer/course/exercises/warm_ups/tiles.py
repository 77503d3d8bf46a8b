"""Warm-ups of chapter 04."""

from __future__ import annotations

from random import Random
from typing import Any

from explorer.course.exercise import Check, Exercise, require
from explorer.roller.construct.alignment import bank_conflicts


def _value(answer: Any) -> Any:
    return answer


def _check_reads(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        rows, columns = draw.randint(1, 64), draw.randint(1, 64)
        right, got = 1 / rows + 1 / columns, answer(rows, columns)
        require(
            isinstance(got, (int, float)) and abs(got - right) < 1e-9,
            f"{rows} x {columns}: {right:.4f} elements are read per multiply-add, not {got!r}",
        )


READS = Exercise(
    name="reads",
    chapter="04_tiles",
    title="Elements that a tile reads",
    activity="fill in",
    minutes=3,
    goal="A tile of `rows` x `columns` results of a product reads `rows` elements of the left "
    "operand and `columns` of the right one for each step along the reduction axis. Fill in the "
    "blank: how many elements does it read per multiply-add?",
    answer="reads",
    stub="def reads(rows, columns):\n    return ... / (rows * columns)\n",
    solution="def reads(rows, columns):\n    return (rows + columns) / (rows * columns)\n",
    hints=("One step reads a column of the left operand and a row of the right one.",),
    checks=(Check("random tiles", 1, _check_reads),),
)


BANKS = 32
ROW_LENGTHS = (32, 33, 34, 36, 40, 48)


def _check_bank_words(answer: Any, seed: int) -> None:
    table = answer.run(_value)
    require(
        isinstance(table, dict) and set(table) == set(ROW_LENGTHS),
        "`bank_words` is a dict with a number for each row length",
    )
    for length in ROW_LENGTHS:
        words = bank_conflicts(BANKS, length, 1, BANKS)
        require(
            table[length] == words,
            f"rows of {length}: the busiest bank delivers {_in_words(words)}, not "
            f"{table[length]!r}; thread 1 reads from bank {length % BANKS}",
        )


def _in_words(count: int) -> str:
    return f"{count} word{'s' * (count > 1)}"


BANK_WORDS = Exercise(
    name="bank_words",
    chapter="04_tiles",
    title="Threads that read from one bank",
    activity="predict",
    minutes=5,
    goal="A tile in shared memory has 32 rows. Each of 32 threads reads the first element of its "
    "row, all at once: thread `r` reads word `r * length`, and word `w` is in bank `w % 32`. "
    "How many words must the busiest bank deliver, for each row length?",
    answer="bank_words",
    stub="""\
lengths = (32, 33, 34, 36, 40, 48)
words = (..., ..., ..., ..., ..., ...)  # of the busiest bank
bank_words = dict(zip(lengths, words))
""",
    solution="""\
lengths = (32, 33, 34, 36, 40, 48)
words = (32, 1, 2, 4, 8, 16)  # of the busiest bank
bank_words = dict(zip(lengths, words))
""",
    hints=(
        "Write down the banks of the first threads for rows of 34: 0, 2, 4, ... Which thread is "
        "the first to reach bank 0 again?",
    ),
    checks=(Check("six row lengths", 2, _check_bank_words),),
    own_answers=("explorer.roller.construct.alignment:bank_conflicts",),
)


def _intensity(rows: int, columns: int) -> float:
    """Return the operations per byte that a tile loads."""
    return 2 * rows * columns / (4 * (rows + columns))


def _construct(needed: float) -> tuple[int, int]:
    """Return the sides of the tile at which the construction stops, the smaller one first."""
    small, large = 1, 1
    while _intensity(small, large) < needed:
        small, large = sorted((2 * small, large))  # the smaller side saves more
    return small, large


def _check_grow_tile(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        needed = 10 ** draw.uniform(-0.3, 2.0)
        got, (small, large) = answer(needed), _construct(needed)
        is_pair = isinstance(got, (tuple, list)) and [type(n) for n in got] == [int, int]
        require(is_pair and min(got) >= 1, f"a tile is a pair of sizes, and not {got!r}"[:200])
        rows, columns = got
        require(
            sorted(got) == [small, large],
            f"{needed:.2f} operations per byte are needed: {rows} x {columns} has "
            f"{_intensity(rows, columns):.2f}, and the construction stops at {small} x {large} "
            f"with {_intensity(small, large):.2f}",
        )


_GROW_TILE = '''\
def elements_read(rows, columns):
    """Return the elements that a tile reads per multiply-add."""
    return 1 / rows + 1 / columns


def grow_tile(needed):
    """Return the first tile that has the needed operations per byte."""
    rows, columns = 1, 1
    while 2 / elements_read(rows, columns) < needed:
        if elements_read(2 * rows, columns) < elements_read(rows, 2 * columns):
            rows = 2 * rows
        else:
            columns = 2 * columns
    return rows, columns
'''

GROW_TILE = Exercise(
    name="grow_tile",
    chapter="04_tiles",
    title="A construction that stops too early",
    activity="find the fault",
    minutes=8,
    goal="`grow_tile(needed)` should construct the tile of a float32 product. It begins with one "
    "result, doubles the axis that saves more traffic, and stops as soon as the tile has "
    "`needed` operations per byte loaded. A multiply-add is two operations. There is one fault: "
    "find it and correct it.",
    answer="grow_tile",
    stub=_GROW_TILE,
    solution=_GROW_TILE.replace(
        "    while 2 / elements_read(rows, columns) < needed:",
        "    while 2 / (4 * elements_read(rows, columns)) < needed:  # 4 bytes an element",
    ),
    hints=(
        "Compare by hand: how many bytes does a tile of 1 x 1 load per multiply-add?",
        "Which unit does `needed` have, and which unit does the condition of the loop compute?",
    ),
    checks=(Check("random machines", 2, _check_grow_tile),),
)


Row = tuple[float, int, str]  # us, elements, and the rule that the tile breaks
CLOSE = 1.02


def _random_tiles(draw: Random) -> list[Row]:
    fastest_us = draw.uniform(10, 500)
    tiles = []
    for _ in range(draw.randint(1, 8)):
        slower = draw.choice((draw.uniform(1, 1.015), draw.uniform(1.025, 1.5)))
        elements = draw.choice((256, 512, 1024, 2048, 4096))
        tiles.append((fastest_us * slower, elements, draw.choice(("", "", "", "bank"))))
    return [(us, elements, "" if n == 0 else rule) for n, (us, elements, rule) in enumerate(tiles)]


def _check_tiles(answer: Any, tiles: list[Row]) -> None:
    got = answer(tiles)
    legal = [(us, elements) for us, elements, rule in tiles if not rule]
    if not legal:
        require(got is None, f"no tile is legal, so the answer is None, and not {got!r}"[:200])
        return
    least_us = min(us for us, _ in legal)
    elements, us = min((elements, us) for us, elements in legal if us <= CLOSE * least_us)
    is_number = type(got) is int and 0 <= got < len(tiles)
    require(is_number, f"of {len(tiles)} tiles, {got!r} is not the number of one"[:200])
    own_us, own_elements, rule = tiles[got]
    require(not rule, f"tile {got} is taken, which breaks the rule {rule!r}")
    require(
        own_us <= CLOSE * least_us,
        f"tile {got} takes {own_us:.1f} us, more than 2 % above the fastest legal tile with "
        f"{least_us:.1f} us",
    )
    require(
        (own_elements, own_us) == (elements, us),
        f"tile {got} has {own_elements} elements and takes {own_us:.2f} us; a tile with {elements} "
        f"elements takes {us:.2f} us, and the fastest legal one {least_us:.2f} us",
    )


def _check_small_cases(answer: Any, seed: int) -> None:
    for tiles in (
        [(100.0, 512, ""), (101.0, 256, ""), (90.0, 128, "execution unit"), (150.0, 64, "")],
        [(101.0, 256, ""), (100.0, 256, "")],
        [(100.0, 256, "bank")],
    ):
        _check_tiles(answer, tiles)


def _check_random_tiles(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(40):
        tiles = _random_tiles(draw)
        draw.shuffle(tiles)
        _check_tiles(answer, tiles)


PICK_TILE = Exercise(
    name="pick_tile",
    chapter="04_tiles",
    title="A choice between tiles that are about as fast",
    activity="write",
    minutes=15,
    goal="A model that is precise to 2 % cannot tell which of two close tiles is faster. Write "
    "`pick_tile(tiles)`. Each tile is a tuple `(us, elements, refused)`, where `refused` is the "
    "rule that it breaks, or `''` for a legal tile. Consider only legal tiles that are at most "
    "2 % slower than the fastest legal one. Return the number, from 0, of the tile with the fewest "
    "elements among them, and of equally small ones that of the fastest. Return None if no tile "
    "is legal.",
    answer="pick_tile",
    stub='''\
def pick_tile(tiles):
    """Return the number of the smallest legal tile that is about as fast as the fastest."""
    raise NotImplementedError
''',
    solution='''\
def pick_tile(tiles):
    """Return the number of the smallest legal tile that is about as fast as the fastest."""
    legal = [(us, elements, n) for n, (us, elements, refused) in enumerate(tiles) if not refused]
    if not legal:
        return None
    fastest_us, _, _ = min(legal)
    close = [(elements, us, n) for us, elements, n in legal if us <= 1.02 * fastest_us]
    return min(close)[-1]
''',
    hints=(
        "Leave out illegal tiles before you look for the fastest one.",
        "Tuples are compared from left to right: `min` of `(elements, us, number)` compares the "
        "elements first.",
    ),
    checks=(
        Check("three small cases", 1, _check_small_cases),
        Check("random tiles", 2, _check_random_tiles),
    ),
)

WARM_UPS = (READS, BANK_WORDS, GROW_TILE, PICK_TILE)
