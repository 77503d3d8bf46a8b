"""Right and wrong answers to the warm-ups of chapter 04."""

RIGHT: dict[str, dict[str, str]] = {
    "reads": {
        "terms": "def reads(rows, columns):\n    return 1 / columns + 1 / rows\n",
    },
}
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
}
