"""Right and wrong answers to the warm-ups of chapter 10."""

from explorer.course.exercises.warm_ups.dynamic_shapes import KNOWN

RIGHT: dict[str, dict[str, str]] = {
    "padded_lengths": {
        "by doubling": (
            "def padded(n):\n    size = 1\n    while size < n:\n        size *= 2\n"
            "    return size\n\n\n"
            "def compilations(lengths):\n    return len(set(map(padded, lengths)))\n"
        ),
    },
    "known_sizes": {
        "in another order": (
            'fixed = dict.fromkeys(("x.sum(axis=0)", "x[enp.nonzero(x > 0)].sum()"), "fixed")\n'
            'shape = dict.fromkeys(("enp.concatenate((x, x))", "enp.exp(x)"), "shape")\n'
            'data = ("enp.concatenate((x[0], x[enp.nonzero(x > 0)]))", "x[enp.nonzero(x > 0)]")\n'
            'known = {**shape, **fixed, **dict.fromkeys(data, "values")}\n'
        ),
    },
    "product_bounds": {
        "every product": (
            "def product_bounds(a, b):\n"
            "    all_x, all_y = (range(lo, hi + 1) for lo, hi in (a, b))\n"
            "    products = sorted(x * y for x in all_x for y in all_y)\n"
            "    return [products[0], products[-1]]\n"
        ),
    },
    "normal_form": {
        "terms are added first": (
            "from collections import Counter\nfrom itertools import product\n\n\n"
            "def multiplied(a, b):\n    total = Counter()\n"
            "    for (x, n), (y, m) in product(a.items(), b.items()):\n"
            "        total[tuple(sorted(x + y))] += n * m\n"
            "    return dict((k, v) for k, v in total.items() if v)\n"
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "padded_lengths": {
        "one for each length": (
            "def compilations(lengths):\n    return len(set(lengths))\n",
            "padded to .*, .* compilations, not",
        ),
        "a bit too many": (
            "def compilations(lengths):\n    return len({1 << n.bit_length() for n in lengths})\n",
            "padded to .*, .* compilations, not",
        ),
    },
    "known_sizes": {
        "a sum is of the shape": (
            KNOWN.solution.replace('"x.sum(axis=0)": "fixed"', '"x.sum(axis=0)": "shape"'),
            r"the size of x.sum\(axis=0\) is not 'shape'",
        ),
        "a sum of positive elements depends on their number": (
            KNOWN.solution.replace('.sum()": "fixed"', '.sum()": "values"'),
            "the size of .* is not 'values'",
        ),
        "a row is missing": ('known = {"enp.exp(x)": "shape"}\n', "it has a row for each value"),
    },
    "product_bounds": {
        "the other ends, too": (
            "def product_bounds(a, b):\n"
            "    ends = a[0] * b[0], a[1] * b[1]\n    return min(ends), max(ends)\n",
            r"x \* y is from .* to .*, not",
        ),
        "mixed ends alone": (
            "def product_bounds(a, b):\n    return a[0] * b[1], a[1] * b[1]\n",
            r"x \* y is from .* to .*, not",
        ),
    },
    "normal_form": {
        "zeros stay": (
            "def multiplied(a, b):\n    total = {}\n"
            "    for x, n in a.items():\n        for y, m in b.items():\n"
            "            k = tuple(sorted(x + y))\n            total[k] = total.get(k, 0) + n * m\n"
            "    return total\n",
            ": 0.*",
        ),
        "symbols in any order": (
            "def multiplied(a, b):\n    total = {}\n"
            "    for x, n in a.items():\n        for y, m in b.items():\n"
            "            total[x + y] = total.get(x + y, 0) + n * m\n"
            "    return {k: v for k, v in total.items() if v}\n",
            "is .*, not",
        ),
        "terms are overwritten": (
            "def multiplied(a, b):\n"
            "    pairs = [(x, y) for x in a for y in b]\n"
            "    return {tuple(sorted(x + y)): a[x] * b[y] for x, y in pairs}\n",
            "is .*, not",
        ),
    },
}
