"""Warm-ups of chapter 01."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.course.replay import receive_dims
from explorer.errors import ShapeError
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.dims import Dim, evaluate_dim
from explorer.process.user_code import shown


def _output_dims(function: Any, *shapes: tuple[int | str, ...]) -> list[tuple[Dim, ...]]:
    """Return the dims that shape inference gives the outputs of a function."""
    model = load(trace(function)(*[tensor("float32", *s) for s in shapes]))
    c = compile(model, options=Options(registered=False), until="typed")
    return [v.tensor.dims for v in c.program.main.outputs]


Bindings = list[tuple[str, list[str]]]  # the name that is bound, and the names that it reads


def _is_in_order(parameters: list[str], bindings: Bindings) -> bool:
    names = [*parameters, *(name for name, _ in bindings)]
    at = {name: n for n, name in enumerate(names)}
    reads_earlier = all(
        read in at and at[read] < n + len(parameters)
        for n, (_, reads) in enumerate(bindings)
        for read in reads
    )
    return len(at) == len(names) and reads_earlier


def _check_in_order(answer: Any, seed: int) -> None:
    draw = Random(seed)
    _require_order(answer, [("a", ["x"]), ("b", ["a", "w"])])
    _require_order(answer, [("a", ["x"]), ("a", ["w"])])
    _require_order(answer, [("x", ["w"])])
    _require_order(answer, [("a", ["b"]), ("b", ["x"])])
    for n in range(20):
        names = ["x", "w"]
        bindings: Bindings = []
        for k in range(draw.randint(2, 5)):
            bindings.append((f"v{k}", [draw.choice(names) for _ in range(draw.randint(1, 2))]))
            names.append(f"v{k}")
        at = draw.randrange(len(bindings))
        name, reads = bindings[at]
        match n % 4:
            case 1:  # reads itself or a later value
                bindings[at] = (name, [*reads, draw.choice(names[at + 2 :])])
            case 2:  # is bound twice
                bindings[at] = (draw.choice(["x", "w", *(b for b, _ in bindings[:at])]), reads)
            case 3:  # a list in another order
                draw.shuffle(bindings)
        _require_order(answer, bindings)


def _require_order(answer: Any, bindings: Bindings) -> None:
    right, got = _is_in_order(["x", "w"], bindings), answer(["x", "w"], bindings)
    require(
        isinstance(got, bool) and got == right,
        f"of x, w and the bindings {bindings} the answer is {right}, not {shown(got)}",
    )


_IN_ORDER = '''\
def in_order(parameters, bindings):
    """Return True if each binding reads earlier values only, and no name is bound twice."""
    defined = set(parameters)
    for name, reads in bindings:
        if name in defined or not set(reads) <= {}:
            return False
        defined.add(name)
    return True
'''

IN_ORDER = Exercise(
    name="in_order",
    chapter="01_graphs",
    title="Definitions before uses",
    activity="fill in",
    minutes=3,
    goal="A binding is here a pair: the name that it binds, and a list of the names that it "
    "reads. Fill in the blank, so that the function returns True if each binding reads only "
    "parameters and values of earlier bindings, and no name is bound twice.",
    answer="in_order",
    stub=_IN_ORDER.format("..."),
    solution=_IN_ORDER.format("defined"),
    hints=("`a <= b` is True if the set `b` has every element of the set `a`.",),
    checks=(Check("random lists of bindings, half of them in order", 1, _check_in_order),),
)

STEPS = 6


@cache
def _strided_dim(step: int) -> Dim:
    ((dim,),) = _output_dims(lambda x: enp.exp(x[::step]), ("n",))
    return dim


def _check_strided(answer: Any, seed: int) -> None:
    draw = Random(seed)
    step, count = draw.randint(3, STEPS), draw.randint(1, 9)
    cases = [(count * step + 1, step), (count * step, step)]
    cases += [(draw.randint(1, 100), draw.randint(1, STEPS)) for _ in range(20)]
    for n, step in cases:
        right, got = evaluate_dim(_strided_dim(step), {"n": n}), answer(n, step)
        require(
            got == right and not isinstance(got, bool),
            f"x has {n} elements: x[::{step}] has {right}, not {shown(got)}",
        )


_STRIDED = '''\
def strided(n, step):
    """Return the number of elements of `x[::step]` for an `x` of `n` elements."""
'''

STRIDED = Exercise(
    name="strided",
    chapter="01_graphs",
    title="Every third element",
    activity="find the fault",
    minutes=5,
    goal="`x[::step]` has the elements 0, `step`, `2 * step` and so on of `x`. The function is "
    "to return how many these are, in whole numbers, but some extents come out wrong. Find the "
    "fault, and repair it.",
    answer="strided",
    stub=_STRIDED + "    return n // step\n",
    solution=_STRIDED + "    return (n + step - 1) // step\n",
    hints=(
        "Write down the elements of `x[::3]` for 6, 7, 8 and 9 elements.",
        "A division rounded up is `-(-a // b)`, or `(a + b - 1) // b`.",
    ),
    checks=(Check("extents by the compiler's shape rule", 2, _check_strided),),
)

# The keys are shown to students.
RULES: dict[str, Any] = {
    "x + y": lambda x, y, w: x + y,
    "x.T @ x": lambda x, y, w: x.T @ x,
    "enp.reshape(x, (-1, 3))": lambda x, y, w: enp.reshape(x, (-1, 3)),
    "enp.concatenate([x @ w, x @ w], axis=0)": lambda x, y, w: enp.concatenate([x @ w, x @ w]),
}


@cache
def _annotated_dims() -> dict[str, tuple[Dim, ...]]:
    def run(x: Any, y: Any, w: Any) -> Any:
        return tuple(rule(x, y, w) for rule in RULES.values())

    dims = _output_dims(lambda x, y, w: run(x, y, w), ("n", 6), ("n", 1), (6, "m"))
    return dict(zip(RULES, dims))


def _own(answer: Any) -> Any:
    """Return an answer that is a value."""
    return answer


def _check_annotations(answer: Any, seed: int) -> None:
    draw = Random(seed)
    table = answer.run(_own)
    require(isinstance(table, dict), f"annotations is {shown(table)}, and must be a dict")
    for text, dims in _annotated_dims().items():
        stated = table.get(text)
        if stated is None:
            raise NotImplementedError
        require(
            isinstance(stated, (list, tuple))
            and all(isinstance(dim, (int, str)) and not isinstance(dim, bool) for dim in stated),
            f"{text}: {shown(stated)} is no list of numbers and texts, such as ['n', 4]",
        )
        predicted = receive_dims([str(dim) for dim in stated])
        for _ in range(4):
            sizes = {"n": draw.randint(2, 40), "m": draw.randint(41, 80)}
            right = [evaluate_dim(dim, sizes) for dim in dims]
            require(
                _evaluate(predicted, sizes) == right,
                f"{text}: for n = {sizes['n']} and m = {sizes['m']} it is {right}, and "
                f"{list(stated)} are {_evaluate(predicted, sizes)}",
            )


def _evaluate(dims: tuple[Dim, ...], sizes: dict[str, int]) -> list[int] | str:
    """Return the values of dims, or a text if they have other symbols."""
    try:
        return [evaluate_dim(dim, sizes) for dim in dims]
    except KeyError:
        return "of other symbols"


_ANNOTATIONS = "annotations = {{\n{}}}\n"
_ANNOTATED = (["n", 6], [6, 6], ["2 * n", 3], ["2 * n", "m"])

ANNOTATIONS = Exercise(
    name="annotations",
    chapter="01_graphs",
    title="Four annotations",
    activity="predict",
    minutes=6,
    goal="`x` is [n, 6], `y` is [n, 1], and `w` is [6, m]. Predict the dims of each value as a "
    "list of numbers and of texts, for example `['n', 4]` or `['n * m + 1']`. Write them with "
    "`+`, `-` and `*`; any such expression that has the same value for every n and m is right.",
    answer="annotations",
    stub=_ANNOTATIONS.format("".join(f'    "{text}": [..., ...],\n' for text in RULES)),
    solution=_ANNOTATIONS.format(
        "".join(f'    "{text}": {dims},\n' for text, dims in zip(RULES, _ANNOTATED))
    ),
    hints=(
        "A sum broadcasts a dim of 1. A product keeps the outer dims and drops the inner ones.",
        "A reshape preserves the number of elements: divide it by the dims that are stated.",
    ),
    checks=(Check("the annotations of the compiler", 2, _check_annotations),),
)


def _sum_shape(left: list[int], right: list[int]) -> list[int] | None:
    """Return the shape of a sum by the compiler's rule, or None if it refuses the sum."""
    try:
        (dims,) = _output_dims(lambda x, y: x + y, tuple(left), tuple(right))
    except ShapeError:
        return None
    return [int(dim) for dim in dims]


def _check_broadcast(answer: Any, seed: int) -> None:
    draw = Random(seed)
    cases: list[tuple[list[int], list[int]]] = [([3, 1], [4]), ([3, 2], [3]), ([5], [2, 1, 5])]
    for _ in range(8):
        dims = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
        other = [draw.choice((dim, dim, dim, 1, 5)) for dim in dims[draw.randrange(len(dims)) :]]
        cases.append((dims, other) if draw.random() < 0.5 else (other, dims))
    for left, right in cases:
        expected, got = _sum_shape(left, right), answer(left, right)
        require(
            (None if got is None else _as_list(got)) == expected,
            f"{left} + {right}: the compiler's rule gives {expected}, not {shown(got)}",
        )


def _as_list(got: Any) -> Any:
    """Return a tuple as a list."""
    return list(got) if isinstance(got, tuple) else got


_BROADCAST = '''\
def broadcast(left, right):
    """Return the shape of a sum of two tensors, or None if their shapes do not fit."""
'''

BROADCAST = Exercise(
    name="broadcast",
    chapter="01_graphs",
    title="The shape rule of a sum",
    activity="write",
    minutes=12,
    goal="Write the shape rule of `x + y` for known extents. Shapes are lists of numbers, and are "
    "compared from their last dims. Two dims fit if they are equal, or if one of them is 1 or is "
    "missing. Return the shape of the sum as a list, or None if the shapes do not fit.",
    answer="broadcast",
    stub=_BROADCAST + "    raise NotImplementedError\n",
    solution=_BROADCAST
    + """\
    rank = max(len(left), len(right))
    left = [1] * (rank - len(left)) + list(left)
    right = [1] * (rank - len(right)) + list(right)
    if any(a != b and 1 not in (a, b) for a, b in zip(left, right)):
        return None
    return [b if a == 1 else a for a, b in zip(left, right)]
""",
    hints=(
        "Put dims of 1 in front of the shorter shape first.",
        "Then every pair of dims is equal, or has a 1, or is a mistake.",
    ),
    checks=(Check("random shapes, by the compiler's shape rule", 3, _check_broadcast),),
)

WARM_UPS = (IN_ORDER, STRIDED, ANNOTATIONS, BROADCAST)
