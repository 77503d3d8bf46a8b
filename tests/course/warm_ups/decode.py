"""Right and wrong answers to the warm-ups of chapter 10b."""

_CODES = """\
import numpy as np


def rounded_block(block, bits):
    least, greatest = block.min(), block.max()
"""

RIGHT: dict[str, dict[str, str]] = {
    "mean_surprise": {
        "a geometric mean": (
            "def perplexity(probabilities):\n    product = 1.0\n"
            "    for p in probabilities:\n        product *= p ** (-1 / len(probabilities))\n"
            "    return product\n"
        ),
    },
    "what_decides": {
        "by times": (
            "def limit(rows, bits, gflops, gb_per_s):\n"
            "    compute, read = 2 * rows / gflops, bits / 8 / gb_per_s\n"
            '    return ("memory", "arithmetic")[compute > read]\n'
        ),
    },
    "zero_point_codes": {
        "nearest of all values": _CODES
        + "    values = np.linspace(least, greatest, 2**bits)\n"
        + "    return values[np.abs(block[:, None] - values).argmin(1)]\n",
    },
    "greedy_case": {
        "three layers": (
            "layers = [(10, 11, 3.0, 0.0), (10, 11, 3.0, 0.0), (20, 24, 9.0, 1)]\n"
            'case = {"layers": layers, "budget": 7}\n'
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "mean_surprise": {
        "the surprise is negative": (
            "import math\n\n\ndef perplexity(probabilities):\n"
            "    mean = sum(math.log(p) for p in probabilities) / len(probabilities)\n"
            "    return math.exp(mean)\n",
            "tokens of probabilities .*: the perplexity is .*, not 0",
        ),
        "the sum of the surprises": (
            "import math\n\n\ndef perplexity(probabilities):\n"
            "    return math.exp(-sum(math.log(p) for p in probabilities))\n",
            "the perplexity is",
        ),
    },
    "what_decides": {
        "bits are taken for bytes": (
            "def limit(rows, bits, gflops, gb_per_s):\n"
            '    return "arithmetic" if 2 * rows / bits > gflops / gb_per_s else "memory"\n',
            "so 'arithmetic' decides, not 'memory'",
        ),
        "memory always": (
            'def limit(rows, bits, gflops, gb_per_s):\n    return "memory"\n',
            "the arithmetic takes .* us and the memory .* us, so 'arithmetic' decides",
        ),
        "one operation for a weight": (
            "def limit(rows, bits, gflops, gb_per_s):\n"
            '    return "arithmetic" if 8 * rows / bits > gflops / gb_per_s else "memory"\n',
            "so 'arithmetic' decides, not 'memory'",
        ),
    },
    "zero_point_codes": {
        "the last code is clipped": (
            _CODES
            + "    scale = (greatest - least) / 2**bits\n"
            + "    codes = np.clip(np.round((block - least) / scale), 0, 2**bits - 1)\n"
            + "    return least + codes * scale\n",
            "becomes .*, and .* evenly spaced values with both ends among them are at most",
        ),
        "one code more": (
            _CODES
            + "    scale = (greatest - least) / 2**bits\n"
            + "    return least + np.round((block - least) / scale) * scale\n",
            "it takes .* values, and .* bits have .* codes",
        ),
    },
    "greedy_case": {
        "greed is right": (
            'case = {"budget": 5, "layers": [(4, 8, 5, 0), (10, 12, 10, 0)]}\n',
            "the greedy choice gives 4 bits to 1 of 2 layers and takes 16 bytes, and no choice",
        ),
        "nothing to raise": (
            'case = {"budget": 20, "layers": [(4, 8, 5, 0), (10, 20, 10, 0)]}\n',
            "the greedy choice gives 4 bits to 0 of 2 layers",
        ),
        "out of reach": (
            'case = {"budget": 1, "layers": [(4, 8, 5, 1), (10, 20, 10, 1)]}\n',
            "4 bits everywhere leave an error of 2, above 1",
        ),
        "fewer bytes for more bits": (
            'case = {"budget": 5, "layers": [(4, 3, 5, 0), (10, 20, 10, 0)]}\n',
            "layer 0 is .*: more bits take more bytes",
        ),
    },
}
