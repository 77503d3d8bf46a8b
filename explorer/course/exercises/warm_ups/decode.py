"""Warm-ups of chapter 10b: perplexity, the balance of a machine, quantization, and greed."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np

from explorer.course.exercise import Check, Exercise, require
from explorer.devices.catalogue import device, device_names


def _check_perplexity(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for trial in range(20):
        tokens = draw.randint(2, 96)
        likely = [1 / tokens if trial < 5 else draw.uniform(0.01, 1.0) for _ in range(tokens)]
        right, got = float(np.prod(np.power(likely, -1 / tokens))), answer(likely)
        require(
            isinstance(got, (int, float)) and abs(got - right) < 1e-6 * right,
            f"{tokens} tokens of probabilities {likely[0]:.3f}, {likely[1]:.3f} and so on: the "
            f"perplexity is {right:.4f}, not {got!r}",
        )


PERPLEXITY = Exercise(
    name="mean_surprise",
    chapter="10b_decode",
    title="The perplexity of a text",
    activity="fill in",
    minutes=3,
    goal="A model gave each token of a text a probability before it saw the token. Fill in the "
    "blank, so that `perplexity(probabilities)` returns *e* to the mean surprise.",
    answer="perplexity",
    stub='''\
import math


def perplexity(probabilities):
    """Return e to the mean surprise of the tokens."""
    surprise = sum(math.log(p) for p in probabilities) * ...
    return math.exp(surprise)
''',
    solution='''\
import math


def perplexity(probabilities):
    """Return e to the mean surprise of the tokens."""
    surprise = sum(math.log(p) for p in probabilities) * (-1 / len(probabilities))
    return math.exp(surprise)
''',
    hints=("The surprise is *minus* a logarithm, and the *mean* is asked for.",),
    checks=(Check("random texts", 1, _check_perplexity),),
)


def _machine(name: str) -> tuple[float, float]:
    """Return the peak GFLOP/s of a data sheet, and the GB/s of its memory."""
    sheet = device(name)
    return sheet.peak_gflops_per_unit * sheet.units, sheet.all_gb_per_s(sheet.levels[-1])


def _check_limits(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for trial in range(40):
        name, bits = draw.choice(device_names()), draw.choice((32, 16, 8, 5))
        gflops, gb_per_s = _machine(name)
        even = gflops / gb_per_s * bits / 16  # rows that take as long to compute as to read
        far = 1.0 if trial % 2 else 0.25
        rows = max(1, round(even * 10 ** draw.uniform(-far, far)))
        if abs(rows / even - 1) < 0.01:
            continue  # too close to call
        compute_us = 2e9 * rows / (gflops * 1e3)  # of 1e9 weights
        read_us = 1e9 * bits / 8 / (gb_per_s * 1e3)
        right = "arithmetic" if compute_us > read_us else "memory"
        got = answer(rows, bits, gflops, gb_per_s)
        require(
            isinstance(got, str) and got == right,
            f"{name} ({gflops:,.0f} GFLOP/s, {gb_per_s:,.0f} GB/s), weights of {bits} bits, {rows} "
            f"rows: for a billion weights the arithmetic takes {compute_us:,.0f} us and the memory "
            f"{read_us:,.0f} us, so {right!r} decides, not {got!r}",
        )


LIMITS = Exercise(
    name="what_decides",
    chapter="10b_decode",
    title="Memory or arithmetic",
    activity="predict",
    minutes=5,
    goal="A matrix product reads each weight of `bits` bits once, and does two operations with it "
    "for each of its `rows` rows. A machine computes at most `gflops` billion operations and reads "
    "at most `gb_per_s` billion bytes a second. Predict which of them takes longer and so decides "
    'the time: write `limit(rows, bits, gflops, gb_per_s)`, which returns "memory" or '
    '"arithmetic". The check asks about the machines of `ironworks devices`.',
    answer="limit",
    stub='''\
def limit(rows, bits, gflops, gb_per_s):
    """Return "memory" or "arithmetic"."""
    raise NotImplementedError
''',
    solution='''\
def limit(rows, bits, gflops, gb_per_s):
    """Return "memory" or "arithmetic"."""
    operations_a_byte = 2 * rows / (bits / 8)
    return "arithmetic" if operations_a_byte > gflops / gb_per_s else "memory"
''',
    hints=(
        "How many operations does the product do for each byte? A byte has 8 bits.",
        "Compare them with the machine's ridge, `gflops / gb_per_s`.",
    ),
    checks=(Check("products on ten machines", 1, _check_limits),),
)


def _check_rounded(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for trial in range(10):
        bits, size = int(rng.choice((2, 3, 4, 8))), int(rng.choice((16, 32, 64)))
        block = rng.normal(rng.uniform(-1, 1), 10 ** rng.uniform(-2, 1), size)
        if trial == 0:  # weights near each of the values that 2 bits have
            bits, size = 2, 64
            block = rng.permutation(np.linspace(-rng.uniform(1, 2), rng.uniform(1, 2), size))
        got = answer(block, bits)
        require(
            isinstance(got, np.ndarray) and got.shape == block.shape and got.dtype.kind == "f",
            f"a block of {size} weights becomes {got!r}"[:200],
        )
        least, greatest = float(block.min()), float(block.max())
        step = (greatest - least) / (2**bits - 1)
        at = int(np.argmax(np.abs(got - block)))
        off = abs(float(got[at]) - float(block[at]))
        case = f"{bits} bits, weights from {least:.4g} to {greatest:.4g}"
        require(
            off <= step / 2 * (1 + 1e-6),
            f"{case}: {block[at]:.4g} becomes {got[at]:.4g}, and {2**bits} evenly spaced values "
            f"with both ends among them are at most {step / 2:.4g} off",
        )
        values = len(np.unique(np.round(got / step, 6)))
        require(
            values <= 2**bits,
            f"{case}: it takes {values} values, and {bits} bits have {2**bits} codes",
        )


CODES = Exercise(
    name="zero_point_codes",
    chapter="10b_decode",
    title="The greatest weight becomes the least",
    activity="find the fault",
    minutes=8,
    goal="This is a quantizer with a *zero point*: code 0 stands for the least weight of the "
    "block. Its results are good, except for the greatest weight of a block: that becomes the "
    "least. `& (2**bits - 1)` keeps the bits that a code has. Find the fault. The least and the "
    "greatest weight must come out as they are, and every other weight as the nearest of evenly "
    "spaced values between them.",
    answer="rounded_block",
    stub='''\
import numpy as np


def rounded_block(block, bits):
    """Return what a scale, a zero point and codes of `bits` bits leave of a block of weights."""
    least, greatest = block.min(), block.max()
    scale = (greatest - least) / 2**bits
    codes = np.round((block - least) / scale).astype(int) & (2**bits - 1)
    return least + codes * scale
''',
    solution='''\
import numpy as np


def rounded_block(block, bits):
    """Return what a scale, a zero point and codes of `bits` bits leave of a block of weights."""
    least, greatest = block.min(), block.max()
    scale = (greatest - least) / (2**bits - 1)
    codes = np.round((block - least) / scale).astype(int)
    return least + codes * scale
''',
    hints=(
        "With 2 bits, which codes are there? Which code does the greatest weight get?",
        "Four fence posts have three gaps.",
    ),
    checks=(Check("random blocks", 1, _check_rounded),),
)


MOST_LAYERS = 6
Layer = tuple[int, int, float, float]  # bytes with 2 and 4 bits, error with 2 and 4 bits


def _value(answer: Any) -> Any:
    return answer


def _layers_of(sent: Any) -> tuple[float, list[Layer]]:
    """Return the budget and the layers of an answer."""
    match sent:
        case {"budget": int() | float() as budget, "layers": list() | tuple() as rows}:
            pass
        case _:
            require(False, 'it needs a number "budget" and a list "layers"')
    require(2 <= len(rows) <= MOST_LAYERS, f"it has {len(rows)} layers, and 2 to {MOST_LAYERS} do")
    for n, row in enumerate(rows):
        is_valid = (
            isinstance(row, (list, tuple))
            and len(row) == 4
            and all(isinstance(x, (int, float)) and 0 <= x < 1e9 for x in row)
            and row[0] < row[1]
            and row[2] > row[3]
        )
        require(
            is_valid,
            f"layer {n} is {row!r}: more bits take more bytes and leave less error, none of them "
            "below 0",
        )
    return budget, [(a, b, c, d) for a, b, c, d in rows]


def _greedy_choice(layers: list[Layer], budget: float) -> list[int]:
    """Return the layers with 4 bits if each raise saves the most error for a byte."""
    raised: list[int] = []
    while _error(layers, raised) > budget:
        raised.append(
            max(
                (n for n in range(len(layers)) if n not in raised),
                key=lambda n: (layers[n][2] - layers[n][3]) / (layers[n][1] - layers[n][0]),
            )
        )
    return raised


def _bytes(layers: list[Layer], raised: list[int]) -> float:
    return sum(row[n in raised] for n, row in enumerate(layers))


def _error(layers: list[Layer], raised: list[int]) -> float:
    return sum(row[2 + (n in raised)] for n, row in enumerate(layers))


def _check_greed(answer: Any, seed: int) -> None:
    budget, layers = _layers_of(answer.run(_value))
    least = _error(layers, list(range(len(layers))))
    require(least <= budget, f"4 bits everywhere leave an error of {least:g}, above {budget:g}")
    greedy = _greedy_choice(layers, budget)
    every = [
        [n for n, bit in enumerate(bits) if bit] for bits in product((0, 1), repeat=len(layers))
    ]
    best = min((c for c in every if _error(layers, c) <= budget), key=lambda c: _bytes(layers, c))
    taken, enough = _bytes(layers, greedy), _bytes(layers, best)
    require(
        taken > enough,
        f"the greedy choice gives 4 bits to {len(greedy)} of {len(layers)} layers and takes "
        f"{taken:g} bytes, and no choice within the budget takes fewer",
    )


GREED = Exercise(
    name="greedy_case",
    chapter="10b_decode",
    title="Where a greedy choice fails",
    activity="write",
    minutes=15,
    goal="A layer has 2 or 4 bits. A *greedy* choice begins with 2 bits everywhere. While the sum "
    "of the errors is above the budget, it gives 4 bits to the layer that saves the most error for "
    "each further byte. Write a `case` of two to six layers in which this takes more bytes than "
    "another choice within the budget. A layer is `(bytes with 2 bits, bytes with 4, error with 2, "
    "error with 4)`.",
    answer="case",
    stub="""\
case = {
    "budget": ...,
    "layers": [
        (..., ..., ..., ...),
        (..., ..., ..., ...),
    ],
}
""",
    solution="""\
case = {
    "budget": 5,  # of an error of 15: 10 must go
    "layers": [
        (4, 8, 5, 0),  # saves 1.25 for a byte, and is raised first
        (10, 20, 10, 0),  # saves 1 for a byte, and would be enough alone
    ],
}
""",
    hints=(
        "A model of 2 layers is enough. Let the greedy choice raise a small one that helps "
        "too little.",
        "Then it must raise the large one as well, which would have been enough alone.",
    ),
    checks=(Check("greedy against every choice", 2, _check_greed),),
)

WARM_UPS = (PERPLEXITY, LIMITS, CODES, GREED)
