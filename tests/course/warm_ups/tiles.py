"""Right and wrong answers to the warm-ups of chapter 04."""

RIGHT: dict[str, dict[str, str]] = {
    "reads": {
        "terms": "def reads(rows, columns):\n    return 1 / columns + 1 / rows\n",
    },
    "bank_words": {
        "the greatest common divisor": (
            "from math import gcd\nbank_words = {n: gcd(n, 32) for n in (48, 40, 36, 34, 33, 32)}\n"
        ),
    },
    "grow_tile": {
        "the smaller side": (
            "def grow_tile(needed):\n"
            "    i = j = 1\n"
            "    while i * j < 2 * needed * (i + j):\n"
            "        i, j = max(i, j), 2 * min(i, j)\n"
            "    return i, j\n"
        ),
    },
    "pick_tile": {
        "by a loop": (
            "def pick_tile(tiles):\n"
            "    legal = [n for n in range(len(tiles)) if tiles[n][2] == '']\n"
            "    if len(legal) == 0:\n"
            "        return\n"
            "    most = 1.02 * min(tiles[n][0] for n in legal)\n"
            "    best = None\n"
            "    for n in legal:\n"
            "        if tiles[n][0] > most:\n"
            "            continue\n"
            "        if best is None or tiles[n][1] < tiles[best][1]:\n"
            "            best = n\n"
            "        elif tiles[n][1] == tiles[best][1] and tiles[n][0] < tiles[best][0]:\n"
            "            best = n\n"
            "    return best\n"
        ),
    },
}
PICK = """\
def pick_tile(tiles):
    legal = [(us, size, n) for n, (us, size, refused) in enumerate(tiles) if {legal}]
    if not legal:
        return None
    least = min({least})
    close = [({key}, n) for us, size, n in legal if us <= {most} * least]
    return min(close)[-1]
"""
PICK_PARTS = {
    "legal": "not refused",
    "least": "us for us, _, _ in legal",
    "key": "size, us",
    "most": "1.02",
}


def pick(**parts: str) -> str:
    """Return the text of `pick_tile` with some parts replaced."""
    return PICK.format(**{**PICK_PARTS, **parts})


RIGHT["pick_tile"]["in parts"] = pick()
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "reads": {
        "each element once for each result": (
            "def reads(rows, columns):\n    return 2.0\n",
            "elements are read per multiply-add, not 2.0",
        ),
        "the area of the results": (
            "def reads(rows, columns):\n    return 1 / (rows * columns)\n",
            "elements are read per multiply-add, not",
        ),
    },
    "bank_words": {
        "padding of any length helps": (
            "bank_words = {32: 32, 33: 1, 34: 1, 36: 1, 40: 1, 48: 1}\n",
            "rows of 34: the busiest bank delivers 2 words, not 1; thread 1 reads from bank 2",
        ),
        "longer rows spread over more banks": (
            "bank_words = {32: 32, 33: 31, 34: 30, 36: 28, 40: 24, 48: 16}\n",
            "rows of 33: the busiest bank delivers 1 word, not 31",
        ),
    },
    "grow_tile": {
        "2 bytes an element": (
            "def grow_tile(needed):\n"
            "    i = j = 1\n"
            "    while i * j / (i + j) < needed:\n"
            "        i, j = max(i, j), 2 * min(i, j)\n"
            "    return i, j\n",
            "operations per byte are needed: .* and the construction stops at",
        ),
        "squares alone": (
            "def grow_tile(needed):\n"
            "    i = 1\n"
            "    while i / 4 < needed:\n"
            "        i *= 2\n"
            "    return i, i\n",
            "operations per byte are needed: .* and the construction stops at",
        ),
    },
    "pick_tile": {
        "illegal ones count": (pick(legal="True"), "which breaks the rule 'execution unit'"),
        "the fastest": (
            pick(most="1.0"),
            "tile 0 has 512 elements and takes 100.00 us; a tile with 256 elements takes 101.00 us",
        ),
        "the smallest of all": (pick(most="9"), "tile 3 takes 150.0 us, more than 2 % above"),
        "close to an illegal one": (
            pick(least="us for us, _, _ in tiles"),
            "ValueError: min",
        ),
        "the first of equal ones": (
            pick(key="size"),
            "tile 0 has 256 elements and takes 101.00 us; a tile with 256 elements takes 100.00 us",
        ),
    },
}
