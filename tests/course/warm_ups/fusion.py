"""Right and wrong answers to the warm-ups of chapter 03."""

_SAVED = "def saved_bytes(rows, columns, itemsize, readers):\n"
_ROWS = "def most_rows(fixed, per_row, capacity):\n"
_KERNELS = """\
kernels_left = {
    "enp.exp(x @ w)": %s,
    "enp.exp(x) @ w": %s,
    "enp.tanh(enp.exp(x @ w)) @ w": 2,
    "x - enp.mean(x, axis=-1, keepdims=True)": %s,
    "p = x @ w; enp.exp(p), enp.tanh(p)": %s,
}
"""
_SOFTMAX = "import numpy as np\n\n\ndef extend_softmax(top, total, block):\n"

RIGHT: dict[str, dict[str, str]] = {
    "saved_bytes": {
        "a sum": _SAVED
        + "    size = rows * columns * itemsize\n"
        + "    return size + readers * size\n",
    },
    "most_rows": {
        "down from the top": _ROWS
        + """\
    rows = 1 << 40
    while fixed + rows * per_row > capacity:
        rows //= 2
    return rows
""",
        "by bits": _ROWS + "    return 1 << (((capacity - fixed) // per_row).bit_length() - 1)\n",
    },
    "kernels_left": {"floats": _KERNELS % ("1.0", "2.0", "1.0", "3.0")},
    "extend_softmax": {
        "element by element": "import math\n\n\ndef extend_softmax(top, total, block):\n"
        + """\
    for x in map(float, block):
        if x > top:
            total, top = total * math.exp(top - x), x
        total += math.exp(x - top)
    return top, total
""",
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "saved_bytes": {
        "one reader": (
            _SAVED + "    return 2 * rows * columns * itemsize\n",
            "elements of \\d bytes with 2 readers: .* bytes are saved, not",
        ),
        "without the write": (
            _SAVED + "    return readers * rows * columns * itemsize\n",
            "bytes are saved, not",
        ),
    },
    "most_rows": {
        "less than the capacity": (
            _ROWS
            + """\
    rows = 1
    while fixed + 2 * rows * per_row < capacity:
        rows *= 2
    return rows
""",
            "rows need \\d+ bytes, and twice as many do not fit; not",
        ),
        "without the fixed bytes": (
            _ROWS
            + """\
    rows = 1
    while 2 * rows * per_row <= capacity:
        rows *= 2
    return rows
""",
            "and twice as many do not fit; not",
        ),
        "no power of two": (
            _ROWS + "    return (capacity - fixed) // per_row\n",
            "and twice as many do not fit; not",
        ),
    },
    "kernels_left": {
        "one kernel each": (
            _KERNELS % (1, 1, 1, 3),
            "enp.exp\\(x\\) @ w: the number of kernels is 2, not 1",
        ),
        "readers are fused": (
            _KERNELS % (1, 2, 1, 2),
            "p = x @ w; .*: the number of kernels is 3, not 2",
        ),
        "a mean is apart": (
            _KERNELS % (1, 2, 2, 3),
            "mean.*: the number of kernels is 1, not 2",
        ),
    },
    "extend_softmax": {
        "the old sum as it is": (
            _SOFTMAX
            + """\
    largest = max(top, float(block.max()))
    return largest, float(total + np.exp(block - largest).sum())
""",
            "after 4 elements the maximum and the sum are \\(3, 1.553",
        ),
        "the old maximum": (
            _SOFTMAX
            + """\
    largest = float(block.max())
    return largest, float(total * np.exp(top - largest) + np.exp(block - largest).sum())
""",
            "after \\d+ elements the maximum and the sum are .*, not",
        ),
        "overflow": (
            _SOFTMAX
            + """\
    largest = max(top, float(block.max()))
    before = total * np.exp(top) if total else 0.0
    return largest, float((before + np.exp(block).sum()) / np.exp(largest))
""",
            "the sum are .*, not \\(.*, nan\\)",
        ),
    },
}
