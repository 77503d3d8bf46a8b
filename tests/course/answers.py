"""Cells as a notebook runs them, and answers to exercises.

Wrong ones have the sentence that tells why; right ones differ in form from the worked solution.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from explorer.course.exercises import EXERCISES
from tests.course import warm_ups


def made(folder: Path, exercise: str, text: str) -> Any:
    """What a cell makes; its text lies in a file, as Jupyter keeps it."""
    file = folder / "ipykernel_1" / f"{abs(hash(text))}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, str(file), "exec"), space)
    return space[EXERCISES[exercise].answer]


def edited(exercise: str, old: str, new: str) -> str:
    """The worked solution with a mistake."""
    text = EXERCISES[exercise].solution
    assert text.count(old) == 1, old
    return text.replace(old, new)


WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "windows": {
        "one window too few": (
            edited("windows", "floor_div(n - size, step) + 1", "floor_div(n - size, step)"),
            "and there are \\[3, ",
        ),
        "no window is dropped": (
            edited("windows", "floor_div(n - size, step) + 1", "floor_div(n, step)"),
            "windows of .* are annotated",
        ),
        "every size is taken": (
            edited("windows", "if size < 1 or step < 1:", "if step < 1:"),
            "windows of 0 with step 1 are no ShapeError",
        ),
    },
    "large_values": {
        "small ones": (
            edited("large_values", "if size > LIMIT:", "if size < LIMIT:"),
            "a value of .* bytes stays on the chip, and the limit is 16384",
        ),
        "at the limit": (
            edited("large_values", "if size > LIMIT:", "if size >= LIMIT:"),
            "a value of 16384 bytes stays on the chip",
        ),
        "no number": (
            edited("large_values", 'f"{size} bytes stay in the cache"', '"it stays in the cache"'),
            "the reason does not say how large it is",
        ),
    },
    "pareto": {
        "all of them": (
            edited("pareto", "if size < least:", "if True:"),
            "is beaten by another in both",
        ),
        "the fastest alone": (
            edited(
                "pareto",
                "            yield legal[n]",
                "            yield legal[n]\n            return",
            ),
            "is not beaten, and not given",
        ),
        "the smallest first": (
            edited("pareto", "in points:", "in points[:0]:").replace(
                "    for _,",
                "    front = []\n"
                "    for _, size, n in points:\n"
                "        if size < least:\n"
                "            least = size\n"
                "            front.append(legal[n])\n"
                "    yield from reversed(front)\n"
                "    for _,",
                1,
            ),
            "the fastest by the model must come first",
        ),
    },
    "constants": {
        "all wait for memory": (
            edited("constants", "for split in range(len(us) + 1):", "for split in (len(us),):"),
            "is off by",
        ),
        "the longest decide": (
            edited(
                "constants", "terms[:, used] / us[:, None]", "terms[:, used] / us.mean()"
            ).replace("np.ones(len(us)), rcond", "us / us.mean(), rcond"),
            "is off by",
        ),
        "two numbers": (
            edited(
                "constants",
                "return launch, 1 / per_flop, 1 / per_byte",
                "return launch, 1 / per_byte",
            ),
            "ValueError: not enough values to unpack .*, at line \\d+ of the cell",
        ),
    },
    "own_pass": {
        "always to the right": (
            edited(
                "own_pass",
                "if work(*first) + work(*second) >= work(a, b) + work(left, right):",
                "if False:",
            ),
            "points became",
        ),
        "also what is read twice": (
            edited("own_pass", "if pair and reads[inner.name] == 1:", "if pair:").replace(
                "work(*first) + work(*second) >= work(a, b) + work(left, right)",
                "work(*first) + work(*second) >= 2 * (work(a, b) + work(left, right))",
            ),
            "points became|is not what it was",
        ),
        "factors the other way": (
            edited(
                "own_pass",
                "first = (b, right) if inner is left else (left, a)",
                "first = (right, b) if inner is left else (a, left)",
            ),
            "off by|cannot be compiled",  # where the factors do not fit either
        ),
    },
    "provenance": {
        "one operator of a kernel alone": (
            edited("provenance", "in call.origin", "in sorted(call.origin)[:1]"),
            "it shows 0, and 1 compute it",
        ),
        "by the kernel's name": (
            edited("provenance", "in call.origin", "in call.name"),
            "it shows 0, and 1 compute it",
        ),
        "without those that are folded": (
            edited(
                "provenance",
                "for s in c.program.sources]",
                "for s in c.program.sources if any(s.name in k.origin for k in calls)]",
            ),
            "no row for",
        ),
    },
    "free_storage": {
        "the largest": (
            edited("free_storage", "min(enough", "max(enough"),
            "is taken, and a smaller one is enough",
        ),
        "by one binding": (
            edited(
                "free_storage",
                "env.bounds(simplify(f.bytes - needed))[0] >= 0",
                "env.hint(f.bytes) >= env.hint(needed)",
            ),
            "which is not provably enough",
        ),
        "equal ones alone": (
            edited(
                "free_storage",
                "env.bounds(simplify(f.bytes - needed))[0] >= 0",
                "env.equal(f.bytes, needed)",
            ),
            "none is taken, and",
        ),
    },
    "bits": {
        "never 2 bits": (
            edited("bits", "for n in layer.errors", "for n in (4, 8)"),
            "bytes are taken, and .* are enough",
        ),
        "a tenth over the budget": (
            edited("bits", "error <= budget", "error <= 1.1 * budget"),
            "under a budget of 5.9: the error is 6",
        ),
        "8 bits if nothing is within it": (
            edited("bits", "if error <= budget), None)", "if error <= budget), [8] * len(layers))"),
            "no choice is within it, and \\[8, 8, 8\\] is returned",
        ),
    },
    "wall": {
        "one unit": (
            edited("wall", "unit = free.index(min(free))", "unit = 0"),
            "a core was idle while there was work",
        ),
        "like cards": (
            edited("wall", "unit = free.index(min(free))", "unit = task % len(free)"),
            "a core was idle while there was work",
        ),
        "as many tasks for each": (
            edited("wall", "operator.task_us", "1"),
            "a core was idle while there was work",
        ),
        "forgets the last task": (
            edited("wall", "range(operator.tasks)", "range(operator.tasks - 1)"),
            "policy 'earliest'",
        ),
    },
    "loop_inside": {
        "one trip": (
            edited("loop_inside", "for _ in range(k):", "if k > 0:"),
            "8 by 8|7 by 7|16 by 16|1 by 1|off by",
        ),
        "not divided": (
            edited("loop_inside", "x = x / enp.sqrt((x * x).sum())", "x = x * 1.0"),
            "off by",
        ),
        "divided at the end": (
            edited(
                "loop_inside",
                "        x = x / enp.sqrt((x * x).sum())\n    return x",
                "    return x / enp.sqrt((x * x).sum())",
            ),
            "7 by 7, 0 iterations: off by",
        ),
    },
    "double_negation": {
        "every negation": (
            edited("double_negation", "if value.name in negated:", "if True:").replace(
                "negated[value.name]", "value", 1
            ),
            "of 1 negations 0 are left; 1 need be",
        ),
        "one pair alone": (
            edited(
                "double_negation",
                "if value.name in negated:",
                "if value.name in negated and all(b.expr.op != 'Identity' for b in body):",
            ),
            "of 4 negations 2 are left; 0 need be",
        ),
        "any two negations": (
            edited("double_negation", "if value.name in negated:", "if negated:").replace(
                "negated[value.name],", "next(iter(negated.values())),", 1
            ),
            "negations .* are left|is not what it was",
        ),
    },
    "own_operator": {
        "not clipped above": (
            edited(
                "own_operator",
                'call("min", call("max", shifted, 0.0, dtype=dtype), 6.0',
                'call("max", shifted, 0.0',
            ),
            "at x = 4 it is",
        ),
        "another reference": (
            edited("own_operator", "np.clip(x + 3, 0, 6) / 6)", "np.clip(x + 2, 0, 6) / 6)"),
            "its reference and its loops differ",
        ),
        "divided by seven": (edited("own_operator", "1 / 6, dtype", "1 / 7, dtype"), "at x = "),
    },
    "measuring": {
        "means": (
            "import numpy as np\n\n\ndef verdict(a, b):\n"
            "    r = np.mean(b) / np.mean(a)\n"
            "    far = abs(r - 1) > 0.05\n"
            "    return 'not distinguishable' if not far else 'faster' if r < 1 else 'slower'\n",
            "of 1000 times it said",
        ),
        "never sure": (
            "def verdict(a, b):\n    return 'not distinguishable'\n",
            "0 of 200 times it said 'faster'",
        ),
        "always sure": (
            "import numpy as np\n\n\ndef verdict(a, b):\n"
            "    return 'faster' if np.median(b) < np.median(a) else 'slower'\n",
            "0 of 1000 times it said 'not distinguishable'",
        ),
        "wrong in one of five": (
            edited("measuring", "2.576", "1.28"),
            "of 1000 times it said 'not distinguishable'; an answer as good",
        ),
    },
    "vjp": {
        "without the second term": (
            edited("vjp", "y * (g - (g * y).sum(axis=-1, keepdims=True))", "y * g"),
            "off by",
        ),
        "overflows": (
            edited("vjp", "enp.exp(x - x.max(axis=-1, keepdims=True))", "enp.exp(x)"),
            "it gives \\[nan",
        ),
        "the whole Jacobian": (
            edited(
                "vjp",
                "    return y * (g - (g * y).sum(axis=-1, keepdims=True))",
                "    rows, n = x.shape\n"
                "    products = y.reshape((rows, n, 1)) * (g * y).reshape((rows, 1, n))\n"
                "    return y * g - products.sum(axis=-1)",
            ),
            "more than twice as often",
        ),
    },
}


RIGHT: dict[str, dict[str, str]] = {
    "double_negation": {
        "a rule": (
            "import explorer\nfrom explorer.ir.calls import OpCall\n\n\n"
            '@explorer.rewrite("no double negation", after="fold constants")\n'
            "def no_double_negation(binding, program):\n"
            "    definitions = {b.var.name: b.expr for b in program.main.body}\n"
            "    expr = binding.expr\n"
            '    if isinstance(expr, OpCall) and expr.op == "Neg":\n'
            "        inner = definitions.get(expr.args[0].name)\n"
            '        if isinstance(inner, OpCall) and inner.op == "Neg":\n'
            '            return OpCall("Identity", inner.args, ())\n'
            "    return None\n"
        ),
    },
    "measuring": {
        "wrong in 5 of 100": edited("measuring", "2.576", "1.96"),
        "signed ranks": (
            "import numpy as np\n\n\ndef verdict(a, b):\n"
            "    x = np.log(np.asarray(b) / np.asarray(a))\n"
            "    ranks = np.abs(x).argsort().argsort() + 1\n"
            "    n, total = len(x), (ranks * np.sign(x)).sum()\n"
            "    far = 1.96 * np.sqrt(n * (n + 1) * (2 * n + 1) / 6)\n"
            "    if abs(total) <= far:\n"
            "        return 'not distinguishable'\n"
            "    return 'faster' if total < 0 else 'slower'\n"
        ),
    },
}

RIGHT |= warm_ups.RIGHT
WRONG |= warm_ups.WRONG
