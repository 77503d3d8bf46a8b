"""Warm-ups of chapter 10: padding, sizes known late, bounds of products, and normal forms."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import explorer.np as enp
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.dims import symbols_of


def _check_padded(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for trial in range(20):
        lengths = [draw.randint(1, 300) for _ in range(draw.randint(1, 12))]
        lengths += [2 ** draw.randint(0, 8)] * draw.randint(0, 2)
        if trial == 0:  # both are padded to the same power of two
            power = 2 ** draw.randint(2, 8)
            lengths = [power, power - 1]
        padded = set()
        for n in lengths:
            size = 1
            while size < n:
                size *= 2
            padded.add(size)
        got = answer(lengths)
        require(
            isinstance(got, int) and got == len(padded),
            f"lengths {lengths}: padded to {sorted(padded)}, {len(padded)} compilations, not "
            f"{got!r}",
        )


PADDED = Exercise(
    name="padded_lengths",
    chapter="10_dynamic_shapes",
    title="One compilation for each power of two",
    activity="fill in",
    minutes=3,
    goal="A compiler for fixed shapes pads each request to the next power of two: 5 becomes 8, and "
    "8 stays 8. It compiles once for each padded length (*bucketing*). Fill in the blank: how "
    "often does it compile for requests of these lengths, each 1 or more? `1 << k` is 2 to the "
    "power of `k`.",
    answer="compilations",
    stub='''\
def compilations(lengths):
    """Return the number of different padded lengths."""
    return len({1 << ... for n in lengths})
''',
    solution='''\
def compilations(lengths):
    """Return the number of different padded lengths."""
    return len({1 << (n - 1).bit_length() for n in lengths})
''',
    hints=(
        "`n.bit_length()` is the number of bits of n: 3 for 5, but 4 for 8, which should stay 8.",
    ),
    checks=(Check("random requests", 1, _check_padded),),
)


def _above_zero(x: Any) -> Any:
    return x[enp.nonzero(x > 0)]


VALUES: dict[str, Any] = {
    "enp.exp(x)": lambda x: enp.exp(x),
    "x.sum(axis=0)": lambda x: x.sum(axis=0),
    "x[enp.nonzero(x > 0)]": _above_zero,
    "x[enp.nonzero(x > 0)].sum()": lambda x: _above_zero(x).sum(),
    "enp.concatenate((x, x))": lambda x: enp.concatenate((x, x)),
    "enp.concatenate((x[0], x[enp.nonzero(x > 0)]))": lambda x: enp.concatenate(
        (x[0], _above_zero(x))
    ),
}


def _size_is_known(function: Any) -> str:
    """Return when the size of a value is known, by the dims that the compiler infers."""
    program = load(trace(lambda x: function(x))(tensor("float32", "n", 4))).program
    names = {name for v in program.main.outputs for d in v.tensor.dims for name in symbols_of(d)}
    return "fixed" if not names else "shape" if names <= {"n"} else "values"


def _value(answer: Any) -> Any:
    return answer


def _check_known(answer: Any, seed: int) -> None:
    sent = answer.run(_value)
    require(isinstance(sent, dict) and set(sent) == set(VALUES), "it has a row for each value")
    for text, function in VALUES.items():
        right = _size_is_known(function)
        require(
            isinstance(sent[text], str) and sent[text] == right,
            f"the size of {text} is not {sent[text]!r}",
        )


KNOWN = Exercise(
    name="known_sizes",
    chapter="10_dynamic_shapes",
    title="When a size is known",
    activity="predict",
    minutes=4,
    goal='`x` is `tensor("float32", "n", 4)`. When is the size of each value known? Predict '
    '"fixed" if the compiler knows it as a number, "shape" if a run knows it as soon as it sees '
    'the shape of `x`, and "values" if it depends on the values of `x`.',
    answer="known",
    stub="""\
known = {
    "enp.exp(x)": ...,
    "x.sum(axis=0)": ...,
    "x[enp.nonzero(x > 0)]": ...,
    "x[enp.nonzero(x > 0)].sum()": ...,
    "enp.concatenate((x, x))": ...,
    "enp.concatenate((x[0], x[enp.nonzero(x > 0)]))": ...,
}
""",
    solution="""\
known = {
    "enp.exp(x)": "shape",
    "x.sum(axis=0)": "fixed",
    "x[enp.nonzero(x > 0)]": "values",
    "x[enp.nonzero(x > 0)].sum()": "fixed",
    "enp.concatenate((x, x))": "shape",
    "enp.concatenate((x[0], x[enp.nonzero(x > 0)]))": "values",
}
""",
    hints=("A sum of all elements is one number, however many elements there are.",),
    checks=(Check("the sizes that the compiler infers", 1, _check_known),),
)


def _check_product_bounds(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for trial in range(40):
        low = (-draw.randint(1, 9), draw.randint(-9, 9))
        a, b = ((n, draw.randint(n, 9)) for n in low)
        if trial < 5:
            a, b = (-draw.randint(1, 9), draw.randint(1, 9)), (-draw.randint(1, 9), 9)
        products = [x * y for x, y in product(range(a[0], a[1] + 1), range(b[0], b[1] + 1))]
        right, got = (min(products), max(products)), answer(a, b)
        is_pair = isinstance(got, (list, tuple)) and len(got) == 2
        require(
            is_pair and all(isinstance(n, int) for n in got) and tuple(got) == right,
            f"x from {a[0]} to {a[1]}, y from {b[0]} to {b[1]}: x * y is from {right[0]} to "
            f"{right[1]}, not {got!r}",
        )


PRODUCT_BOUNDS = Exercise(
    name="product_bounds",
    chapter="10_dynamic_shapes",
    title="The bounds of a product",
    activity="find the fault",
    minutes=6,
    goal="A compiler bounds an expression by the bounds of its parts (*interval arithmetic*). `x` "
    "is from `a[0]` to `a[1]`, and `y` from `b[0]` to `b[1]`; all are whole numbers. "
    "`product_bounds(a, b)` returns the least and the greatest value of `x * y`. It is right for "
    "sizes, but wrong for some differences of sizes. Find the fault.",
    answer="product_bounds",
    stub='''\
def product_bounds(a, b):
    """Return the least and the greatest x * y, for x from a[0] to a[1] and y from b[0] to b[1]."""
    return a[0] * b[0], a[1] * b[1]
''',
    solution='''\
def product_bounds(a, b):
    """Return the least and the greatest x * y, for x from a[0] to a[1] and y from b[0] to b[1]."""
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)
''',
    hints=(
        "A size is not below 0, but a difference of sizes may be. Try x and y from -2 to 1.",
        "The least and the greatest product are products of ends, but of which ones?",
    ),
    checks=(Check("random bounds", 1, _check_product_bounds),),
)


Terms = dict[tuple[str, ...], int]


def _text(terms: Terms) -> str:
    parts = ["*".join(map(str, (count, *names))) for names, count in sorted(terms.items())]
    return " + ".join(parts) or "0"


def _expanded(a: Terms, b: Terms) -> Terms:
    total: Terms = {}
    for (left, n), (right, m) in product(a.items(), b.items()):
        names = tuple(sorted(left + right))
        total[names] = total.get(names, 0) + n * m
    return {names: count for names, count in total.items() if count}


def _random_terms(draw: Random) -> Terms:
    terms: Terms = {}
    for _ in range(draw.randint(1, 3)):
        names = tuple(sorted(draw.choice("mnk") for _ in range(draw.randint(0, 2))))
        terms[names] = draw.choice((-4, -2, -1, 1, 2, 4))
    return terms


def _check_normal_form(answer: Any, seed: int) -> None:
    draw = Random(seed)
    first, second = draw.sample("mnk", 2)
    count = draw.randint(1, 9)
    cases: list[tuple[Terms, Terms]] = [
        ({("n",): 4}, {("m",): 1, (): 1}),
        ({("n",): 2}, {("m",): 3}),
        ({(first,): count, (second,): 1}, {(first,): count, (second,): -1}),
    ]
    for a, b in (*cases, *((_random_terms(draw), _random_terms(draw)) for _ in range(20))):
        right, got = _expanded(a, b), answer(a, b)
        case = f"({_text(a)}) * ({_text(b)})"
        require(isinstance(got, dict), f"{case} is {_text(right)}, and it returns {got!r}"[:300])
        require(got == right, f"{case} is {_text(right)}: {right!r}, not {got!r}"[:400])


NORMAL_FORM = Exercise(
    name="normal_form",
    chapter="10_dynamic_shapes",
    title="A normal form of your own",
    activity="write",
    minutes=15,
    goal="An expression in normal form is a dict: from the symbols of a term, sorted, to the "
    'term\'s factor. `4*m*n + 4*n*n - 8` is `{("m", "n"): 4, ("n", "n"): 4, (): -8}`. A term with '
    "the factor 0 is left out, so that equal expressions have equal dicts. Write `multiplied(a, b)`"
    ": the normal form of the product of two expressions in normal form.",
    answer="multiplied",
    stub='''\
def multiplied(a, b):
    """Return the normal form of a * b."""
    raise NotImplementedError
''',
    solution='''\
def multiplied(a, b):
    """Return the normal form of a * b."""
    total = {}
    for left, n in a.items():
        for right, m in b.items():
            symbols = tuple(sorted(left + right))
            total[symbols] = total.get(symbols, 0) + n * m
    return {symbols: factor for symbols, factor in total.items() if factor != 0}
''',
    hints=(
        "Multiply each term of a by each term of b. Two products may be the same term: add them.",
        "(m + n) * (m - n) has four products, and two of them cancel each other out.",
    ),
    checks=(Check("random products", 2, _check_normal_form),),
)

WARM_UPS = (PADDED, KNOWN, PRODUCT_BOUNDS, NORMAL_FORM)
