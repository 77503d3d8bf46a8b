"""Right and wrong answers to the warm-ups of chapter 01."""

_ORDER = "def in_order(parameters, bindings):\n"
_STRIDED = "def strided(n, step):\n"
_ANNOTATIONS = """\
annotations = {
    "x + y": %s,
    "x.T @ x": [6, 6],
    "enp.reshape(x, (-1, 3))": %s,
    "enp.concatenate([x @ w, x @ w], axis=0)": %s,
}
"""
_BROADCAST = "def broadcast(left, right):\n"

RIGHT: dict[str, dict[str, str]] = {
    "in_order": {
        "by number": _ORDER
        + """\
    names = [*parameters, *(name for name, _ in bindings)]
    for n, (_, reads) in enumerate(bindings, len(parameters)):
        if any(read not in names[:n] for read in reads):
            return False
    return len(names) == len(set(names))
""",
    },
    "strided": {"a range": _STRIDED + "    return len(range(0, n, step))\n"},
    "annotations": {
        "other expressions": _ANNOTATIONS % ('("n", "6")', '["n + n", "3"]', '["n * 2", "1 * m"]'),
    },
    "broadcast": {
        "from the end": _BROADCAST
        + """\
    shape = []
    for n in range(1, max(len(left), len(right)) + 1):
        dims = {s[-n] for s in (left, right) if n <= len(s)} - {1}
        if len(dims) > 1:
            return None
        shape.insert(0, dims.pop() if dims else 1)
    return tuple(shape)
""",
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "in_order": {
        "any name of the list": (
            _ORDER
            + """\
    names = [*parameters, *(name for name, _ in bindings)]
    unique = len(names) == len(set(names))
    return unique and all(set(reads) <= set(names) for _, reads in bindings)
""",
            "the answer is False, not True",
        ),
        "parameters alone": (
            _ORDER + "    return all(set(reads) <= set(parameters) for _, reads in bindings)\n",
            "the answer is",
        ),
        "a name twice": (
            _ORDER
            + """\
    defined = set(parameters)
    for name, reads in bindings:
        if not set(reads) <= defined:
            return False
        defined.add(name)
    return True
""",
            "the answer is False, not True",
        ),
    },
    "strided": {
        "one more": (
            _STRIDED + "    return n // step + 1\n",
            "x has \\d+ elements: x\\[::\\d\\] has \\d+, not",
        ),
        "to the nearest": (_STRIDED + "    return round(n / step)\n", "elements: x"),
    },
    "annotations": {
        "a broadcast dim": (
            _ANNOTATIONS % ('["n", 1]', '["2 * n", 3]', '["2 * n", "m"]'),
            "x \\+ y: for n = \\d+ and m = \\d+ it is \\[\\d+, 6\\], and \\['n', 1\\] are",
        ),
        "-1 is left": (
            _ANNOTATIONS % ('["n", 6]', '["n", 3]', '["2 * n", "m"]'),
            "reshape.*: for n = \\d+ and m = \\d+ it is",
        ),
        "the other axis": (
            _ANNOTATIONS % ('["n", 6]', '["2 * n", 3]', '["n", "2 * m"]'),
            "concatenate.*: for n = \\d+ and m = \\d+ it is",
        ),
        "another symbol": (
            _ANNOTATIONS % ('["n", 6]', '["2 * n", 3]', '["2 * n", "k"]'),
            "are of other symbols",
        ),
        "one text": (
            _ANNOTATIONS % ('"[n, 6]"', '["2 * n", 3]', '["2 * n", "m"]'),
            "is no list of numbers and texts",
        ),
    },
    "broadcast": {
        "from the first dim": (
            _BROADCAST
            + """\
    rank = max(len(left), len(right))
    left, right = (s + [1] * (rank - len(s)) for s in (left, right))
    if any(a != b and 1 not in (a, b) for a, b in zip(left, right)):
        return None
    return [max(pair) for pair in zip(left, right)]
""",
            "\\[3, 1\\] \\+ \\[4\\]: the compiler's rule gives \\[3, 4\\], not None",
        ),
        "the larger one": (
            _BROADCAST
            + """\
    rank = max(len(left), len(right))
    left, right = ([1] * (rank - len(s)) + s for s in (left, right))
    return [max(pair) for pair in zip(left, right)]
""",
            "\\[3, 2\\] \\+ \\[3\\]: the compiler's rule gives None, not \\[3, 3\\]",
        ),
        "equal ranks": (
            _BROADCAST
            + """\
    if len(left) != len(right):
        return None
    return [max(pair) for pair in zip(left, right)]
""",
            "the compiler's rule gives \\[3, 4\\], not None",
        ),
    },
}
