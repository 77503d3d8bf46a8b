"""Cells as a notebook runs them, and answers to exercises.

Wrong ones have the sentence that tells why; right ones differ in form from the worked solution.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from explorer.course.exercises import EXERCISES
from tests.course import warm_ups
from tests.course.right_answers import RIGHT_LARGE, edited, filled


def made(folder: Path, exercise: str, text: str) -> Any:
    """What a cell makes; its text lies in a file, as Jupyter keeps it."""
    file = folder / "ipykernel_1" / f"{abs(hash(text))}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, str(file), "exec"), space)
    return space[EXERCISES[exercise].answer]


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
        "rounded up": (
            edited(
                "windows",
                "floor_div(n - size, step) + 1",
                "floor_div(n - size + step - 1, step) + 1",
            ),
            "windows of .* are annotated",
        ),
        "as if the step were 1": (
            edited("windows", "floor_div(n - size, step) + 1", "n - size + 1"),
            "windows of .* are annotated",
        ),
        "windows last": (
            edited(
                "windows",
                "(rows, floor_div(n - size, step) + 1, size)",
                "(rows, size, floor_div(n - size, step) + 1)",
            ),
            "windows of .* are annotated",
        ),
        "a negative size alone": (
            edited("windows", "if size < 1 or step < 1:", "if size < 0 or step < 1:"),
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
        "the limit in elements": (
            edited("large_values", "if size > LIMIT:", "if size // 4 > LIMIT:"),
            "is refused|is stored, and the limit is 16384",
        ),
        "kilobytes of 1000 bytes": (
            edited("large_values", "LIMIT = 16 * 1024", "LIMIT = 16 * 1000"),
            "a value of 16128 bytes stays on the chip",
        ),
        "the reason in KiB": (
            edited(
                "large_values",
                'f"{size} bytes stay in the cache"',
                'f"{size / 1024:.1f} KiB stay in the cache"',
            ),
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
        "ten are compared": (
            edited("pareto", "sizes, 200)", "sizes)"),
            "is not beaten, and not given",
        ),
        "also what breaks a rule": (
            edited("pareto", "[c for c in every if not c.refused]", "list(every)").replace(
                "if size < least:", "if size < least or legal[n].refused:"
            ),
            "a tile that breaks a rule is among them",
        ),
        "equal sizes as well": (
            edited("pareto", "if size < least:", "if size <= least:"),
            "is beaten by another in both",
        ),
        "the larger the better": (
            edited("pareto", "if size < least:", "if size > least:").replace(
                'float("inf")', '-float("inf")'
            ),
            "is not beaten, and not given",
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
        "no launch": (
            edited("constants", "np.ones(len(us)), flops / 1e3", "0 * us, flops / 1e3"),
            "is off by",
        ),
        "the best of each": (
            filled(
                "constants",
                """
                flops, size, us = np.array(rows, dtype=float).T
                launch = us.min()
                return launch, (flops / us).max() / 1e3, (size / us).max() / 1e3
                """,
            ),
            "is off by",
        ),
        "the first half waits": (
            edited(
                "constants", "for split in range(len(us) + 1):", "for split in (len(us) // 2,):"
            ),
            "the machine with a launch of|is off by",
        ),
        "sum instead of maximum": (
            filled(
                "constants",
                """
                flops, size, us = np.array(rows, dtype=float).T
                terms = np.stack([np.ones(len(us)), flops / 1e3, size / 1e3], 1) / us[:, None]
                scale = np.abs(terms).max(axis=0)
                fit = np.linalg.lstsq(terms / scale, np.ones(len(us)), rcond=None)[0] / scale
                launch, per_flop, per_byte = np.maximum(fit, 1e-9)
                return launch, 1 / per_flop, 1 / per_byte
                """,
            ),
            "is off by",
        ),
        "microseconds for nanoseconds": (
            edited("constants", "1 / per_flop, 1 / per_byte", "1e-3 / per_flop, 1e-3 / per_byte"),
            "is off by",
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
        "a copy of each value": (
            edited(
                "own_pass", "            if pair and reads", "            if False and reads"
            ).replace(
                "        orders = [(binding,)]\n",
                "        again = Var(binding.var.name + '.again', binding.var.tensor)\n"
                "        copy = OpCall('Identity', (binding.var,), ())\n"
                "        orders = [(binding, Binding((again,), copy, binding.origin))]\n",
            ),
            "half must go of one model",
        ),
        "one name for all": (
            edited("own_pass", 'f"{binding.var.name}.first"', '"first"'),
            "first",
        ),
        "only the new origin": (
            edited(
                "own_pass",
                "origin = binding.origin | producers[inner.name].origin",
                'origin = frozenset({"less work"})',
            ),
            "origin|less work",
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
        "at most one": (
            edited(
                "provenance",
                "sum(s.name in call.origin for call in calls)",
                "int(any(s.name in call.origin for call in calls))",
            ),
            "it shows 1, and .* compute it",
        ),
        "the most kernels first": (
            edited(
                "provenance",
                "    return [(s.name, sum(s.name in call.origin for call in calls)) "
                "for s in c.program.sources]",
                "    rows = [(s.name, sum(s.name in call.origin for call in calls)) "
                "for s in c.program.sources]\n"
                "    return sorted(rows, key=lambda row: -row[1])",
            ),
            "a row each is wanted, in the order of the model",
        ),
        "a row for each kernel": (
            edited(
                "provenance",
                "    return [(s.name, sum(s.name in call.origin for call in calls)) "
                "for s in c.program.sources]",
                "    return [(s.name, 1) for s in c.program.sources "
                "for call in calls if s.name in call.origin]",
            ),
            "it shows 1, and|a row each is wanted|no row for",
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
        "the first that is enough": (
            edited(
                "free_storage",
                "min(enough, key=lambda f: env.hint(f.bytes), default=None)",
                "next(iter(enough), None)",
            ),
            "is taken, and a smaller one is enough",
        ),
        "larger ones alone": (
            edited("free_storage", "[0] >= 0", "[0] > 0"),
            "none is taken, and|is taken, and a smaller one is enough",
        ),
        "not multiplied out": (
            edited(
                "free_storage",
                "env.bounds(simplify(f.bytes - needed))",
                "env.bounds(f.bytes - needed)",
            ),
            "none is taken, and",
        ),
        "enough at the most": (
            edited(
                "free_storage",
                "if env.bounds(simplify(f.bytes - needed))[0] >= 0]",
                "if (env.bounds(simplify(f.bytes - needed))[1] or 0) >= 0]",
            ),
            "which is not provably enough",
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
        "one step after another": (
            filled(
                "bits",
                """
                bits = [2] * len(layers)

                def error():
                    return sum(layer.errors[n] for layer, n in zip(layers, bits))

                while error() > budget:
                    steps = []
                    for i, layer in enumerate(layers):
                        if bits[i] < 8:
                            more = 2 * bits[i]
                            saved = layer.errors[bits[i]] - layer.errors[more]
                            cost = layer.bytes[more] - layer.bytes[bits[i]]
                            steps.append((saved / cost, i, more))
                    if not steps:
                        return None
                    _, i, more = max(steps)
                    bits[i] = more
                return bits
                """,
            ),
            "bytes are taken, and .* are enough",
        ),
        "the same for each layer": (
            filled(
                "bits",
                """
                for n in (2, 4, 8):
                    if sum(layer.errors[n] for layer in layers) <= budget:
                        return [n] * len(layers)
                return None
                """,
            ),
            "bytes are taken, and .* are enough",
        ),
        "below the budget": (
            edited("bits", "if error <= budget), None", "if error < budget), None"),
            "under a budget of .*: None is returned|bytes are taken, and .* are enough",
        ),
        "the least error": (
            edited(
                "bits",
                "next((list(bits) for _, error, bits in front if error <= budget), None)",
                "next((list(bits) for _, error, bits in reversed(front) if error <= budget), None)",
            ),
            "bytes are taken, and .* are enough",
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
        "the busiest core": (
            edited("wall", "free.index(min(free))", "free.index(max(free))"),
            "a core was idle while there was work",
        ),
        "each operator from the start": (
            edited("wall", "    for number,", "    for number,").replace(
                "        for task in range(operator.tasks):",
                "        free = [0.0] * facts.device.units\n"
                "        for task in range(operator.tasks):",
            ),
            "a core was idle while there was work",
        ),
        "all of an operator for a task": (
            edited("wall", "free[unit] += operator.task_us", "free[unit] += operator.work_us"),
            "a core was idle while there was work",
        ),
        "an operator on a core": (
            edited(
                "wall",
                "        for task in range(operator.tasks):\n"
                "            unit = free.index(min(free))\n"
                "            free[unit] += operator.task_us\n"
                "            shares.append(Share(number, unit, task, task + 1))\n",
                "        unit = free.index(min(free))\n"
                "        free[unit] += operator.work_us\n"
                "        shares.append(Share(number, unit, 0, operator.tasks))\n",
            ),
            "a core was idle while there was work",
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
        "one iteration more": (
            edited("loop_inside", "in range(k):", "in range(k + 1):"),
            "7 by 7, 0 iterations: off by",
        ),
        "transposed": (
            edited("loop_inside", "x = a @ x", "x = a.T @ x"),
            "iterations: off by",
        ),
        "the sum for the length": (
            edited("loop_inside", "enp.sqrt((x * x).sum())", "x.sum()"),
            "off by",
        ),
        "twenty iterations": (
            edited("loop_inside", "in range(k):", "in range(20):"),
            "off by",
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
        "any operator twice": (
            edited("double_negation", 'expr.op == "Neg":', "len(expr.args) == 1:")
            .replace("if value.name in negated", "if (expr.op, value.name) in negated")
            .replace("negated[value.name]", "negated[expr.op, value.name]")
            .replace("negated[binding.var.name]", "negated[expr.op, binding.var.name]"),
            "this program is not what it was",
        ),
        "both at once": (
            edited(
                "double_negation",
                'expr = OpCall("Identity", (negated[value.name],), ())',
                'expr = OpCall("Identity", (negated[value.name],), ())\n'
                "                body = [\n"
                "                    replace(b, expr=expr) if b.var.name == value.name else b\n"
                "                    for b in body\n"
                "                ]",
            ),
            "this program is not what it was",
        ),
        "the inner negation": (
            edited("double_negation", "(negated[value.name],), ())", "(value,), ())"),
            "negations .* are left|is not what it was",
        ),
        "without the binding": (
            edited(
                "double_negation",
                '                expr = OpCall("Identity", (negated[value.name],), ())',
                "                continue",
            ),
            "",
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
        "clipped before the shift": (
            edited(
                "own_operator",
                'call("min", call("max", shifted, 0.0, dtype=dtype), 6.0, dtype=dtype)\n',
                'call("min", call("max", x, 0.0, dtype=dtype), 6.0, dtype=dtype)\n'
                '    clipped = call("add", clipped, 3.0, dtype=dtype)\n',
            ),
            "at x = ",
        ),
        "the gate alone": (
            edited(
                "own_operator",
                'call("mul", call("mul", x, clipped), 1 / 6',
                'call("mul", clipped, 1 / 6',
            ),
            "at x = ",
        ),
        "in double precision": (
            edited("own_operator", ".astype(x.dtype)", ".astype(np.float64)"),
            "returned float64",
        ),
        "two operators": (
            "import explorer\nfrom explorer import np as enp\n\n\n"
            "def hard_swish(x):\n"
            "    return x * enp.minimum(enp.maximum(x + 3.0, 0.0), 6.0) / 6.0\n",
            "and must be one",
        ),
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
        "a paired t-test": (
            filled(
                "measuring",
                """
                x = np.log(np.asarray(b) / np.asarray(a))
                far = 2.045 * x.std(ddof=1) / np.sqrt(len(x))
                if abs(x.mean()) <= far:
                    return "not distinguishable"
                return "faster" if x.mean() < 0 else "slower"
                """,
            ),
            "of 1000 times it said",
        ),
        "two intervals that overlap": (
            filled(
                "measuring",
                """
                a, b = np.sort(a), np.sort(b)
                k = int(len(a) / 2 - 1.29 * np.sqrt(len(a)))
                if b[-1 - k] < a[k]:
                    return "faster"
                return "slower" if b[k] > a[-1 - k] else "not distinguishable"
                """,
            ),
            "of 1000 times it said",
        ),
        "medians that are 1 % apart": (
            filled(
                "measuring",
                """
                ratio = np.median(b) / np.median(a)
                if abs(ratio - 1) <= 0.01:
                    return "not distinguishable"
                return "faster" if ratio < 1 else "slower"
                """,
            ),
            "of 1000 times it said 'not distinguishable'",
        ),
        "the ratio upside down": (
            edited(
                "measuring",
                "np.log(np.asarray(b) / np.asarray(a))",
                "np.log(np.asarray(a) / np.asarray(b))",
            ),
            "of 200 times it said 'faster'|of 1000 times it said",
        ),
    },
    "vjp": {
        "without the second term": (
            edited("vjp", "y * (g - (g * y).sum(axis=-1, keepdims=True))", "y * g"),
            "off by",
        ),
        "overflows": (
            edited("vjp", "enp.exp(x - x.max(axis=-1, keepdims=True))", "enp.exp(x)"),
            "it gives \\[\\[nan",
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
        "the terms added": (
            edited("vjp", "y * (g - (g * y)", "y * (g + (g * y)"),
            "off by",
        ),
        "along the other axis": (
            EXERCISES["vjp"].solution.replace("axis=-1", "axis=0"),
            "off by",
        ),
        "a mean for the sum": (
            edited("vjp", "(g * y).sum(", "(g * y).mean("),
            "off by",
        ),
        "the largest of all rows": (
            edited("vjp", "x.max(axis=-1, keepdims=True)", "x.max()"),
            "it gives ",
        ),
        "the forward pass": (
            edited(
                "vjp", "return y * (g - (g * y).sum(axis=-1, keepdims=True))", "return y + 0.0 * g"
            ),
            "off by",
        ),
    },
}


RIGHT: dict[str, dict[str, str]] = RIGHT_LARGE | warm_ups.RIGHT
WRONG |= warm_ups.WRONG
