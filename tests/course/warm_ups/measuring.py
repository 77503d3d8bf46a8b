"""Right and wrong answers to the warm-ups of chapter 08."""

RIGHT: dict[str, dict[str, str]] = {
    "typical_time": {
        "a list of all times": (
            "import numpy as np\n\n\ndef typical(n, stopped):\n"
            "    times = [1000] * stopped + [100] * (n - stopped)\n"
            "    return [np.median(times), np.mean(times)]\n"
        ),
    },
    "false_positives": {
        "by logarithms": (
            "import math\n\n\ndef false_positive(comparisons):\n"
            "    return -math.expm1(comparisons * math.log(0.99))\n"
        ),
    },
    "turn_ratios": {
        "a list": "def ratios(a, b):\n    return sorted(y / x for x, y in zip(a, b))\n",
    },
    "rank_confidence": {
        "the middle of the binomial": (
            "from math import comb\n\n\ndef confidence(n, k):\n"
            "    return sum(comb(n, i) for i in range(k, n - k + 1)) / 2**n\n"
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "typical_time": {
        "the median follows the mean": (
            "def typical(n, stopped):\n    mean = 100 + 900 * stopped / n\n    return mean, mean\n",
            "times, .* of them of 1,000 us: the median is 100 us and the mean",
        ),
        "the median never moves": (
            "def typical(n, stopped):\n    return 100, 100 + 900 * stopped / n\n",
            "the median is 1000 us and the mean",
        ),
    },
    "false_positives": {
        "a sum": (
            "def false_positive(comparisons):\n    return 0.01 * comparisons\n",
            "at least one is wrong with probability .*, not",
        ),
        "once in a hundred": (
            "def false_positive(comparisons):\n    return 1 - 0.99\n",
            "at least one is wrong with probability .*, not 0.01",
        ),
    },
    "turn_ratios": {
        "a over b": (
            "import numpy as np\n\n\ndef ratios(a, b):\n    return np.sort(a / b)\n",
            "turns: ratio .* of the sorted ones is",
        ),
        "not sorted": (
            "def ratios(a, b):\n    return b / a\n",
            "turns: ratio .* of the sorted ones is",
        ),
    },
    "rank_confidence": {
        "one end alone": (
            "from math import comb\n\n\ndef confidence(n, k):\n"
            "    return 1 - sum(comb(n, i) for i in range(k)) / 2**n\n",
            "the interval encloses the median with probability",
        ),
        "k times may lie outside": (
            "from math import comb\n\n\ndef confidence(n, k):\n"
            "    return 1 - 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n\n",
            "the interval encloses the median with probability",
        ),
    },
}
