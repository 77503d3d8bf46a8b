"""Right and wrong answers to the warm-ups of chapter 09."""

from explorer.course.exercises.warm_ups.control_flow import DIVISOR, LATE_READER, TRACED_LINES

_DIVISOR_HEAD = DIVISOR.stub.replace("    raise NotImplementedError\n", "")

RIGHT: dict[str, dict[str, str]] = {
    "traced_lines": {
        "a comprehension": (
            'words = "three as_many either by_shape up_to_three".split()\n'
            "multiplications = dict(zip(words, (3, 1, 2, 1, 3)))\n"
        ),
    },
    "nested_reads": {
        "a count": (
            "def host_reads(k, m):\n    count = 1\n    for _ in range(k):\n        count += 1\n"
            "        for _ in range(m):\n            count += 1\n    return count\n"
        ),
    },
    "late_reader": {
        "read before the write": LATE_READER.stub.replace("        old = table.copy()\n", "")
        .replace("table[row] = 2 *", "new = 2 *")
        .replace("table[row] - old[row])", "new - table[row])\n        table[row] = new"),
    },
    "euclid": {
        "by subtraction": _DIVISOR_HEAD
        + "    while b != 0:\n        if a < b:\n            a, b = b, a\n"
        + "        else:\n            a = a - b\n    return a\n",
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "traced_lines": {
        "as often as they run": (
            TRACED_LINES.solution.replace('"either": 2', '"either": 1'),
            "the program of 'either' does not have 1 multiplications",
        ),
        "both arms of a shape": (
            TRACED_LINES.solution.replace('"by_shape": 1', '"by_shape": 2'),
            "the program of 'by_shape' does not have 2 multiplications",
        ),
        "a loop of Python is a loop": (
            TRACED_LINES.solution.replace('"three": 3', '"three": 1'),
            "the program of 'three' does not have 1 multiplications",
        ),
    },
    "nested_reads": {
        "conditions alone": (
            "def host_reads(k, m):\n    return 1 + k * m\n",
            "k = 3, m = 0: Python read 4 values, not 1",
        ),
        "the trip count of the inner loop once": (
            "def host_reads(k, m):\n    return 2 + k * m\n",
            "k = 0, m = 3: Python read 1 values, not 2",
        ),
    },
    "late_reader": {
        "another name for the copy": (
            LATE_READER.stub.replace("old", "before"),
            "each iteration copies the table of 1,000 rows",
        ),
        "read after the write": (
            LATE_READER.stub.replace("        old = table.copy()\n", "").replace(
                "        change =", "        old = table.copy()\n        change ="
            ),
            "k = .*: the change is off by",
        ),
    },
    "euclid": {
        "one after the other": (
            _DIVISOR_HEAD + "    while b != 0:\n        a = b\n        b = a % b\n    return a\n",
            "the greatest common divisor of 12 and 18 is 6, not 18",
        ),
        "the first iteration always runs": (
            _DIVISOR_HEAD
            + "    a, b = b, a % explorer.np.maximum(b, 1)\n    while b != 0:\n"
            + "        a, b = b, a % b\n    return a\n",
            "the greatest common divisor of 7 and 0 is 7, not 0",
        ),
        "two iterations": (
            _DIVISOR_HEAD
            + "    for _ in range(2):\n        if b != 0:\n            a, b = b, a % b\n"
            + "    return a\n",
            "the greatest common divisor of .* is .*, not",
        ),
    },
}
