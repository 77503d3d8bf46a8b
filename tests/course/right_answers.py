"""Right answers to the large exercises, of other forms than the worked solutions."""

from __future__ import annotations

from textwrap import dedent, indent

from explorer.course.exercises import EXERCISES

BLANK = "    raise NotImplementedError\n"


def edited(exercise: str, old: str, new: str) -> str:
    """Return the worked solution with one place changed."""
    text = EXERCISES[exercise].solution
    assert text.count(old) == 1, old
    return text.replace(old, new)


def filled(exercise: str, text: str, imports: str = "") -> str:
    """Return the stub with a body in place of its blank."""
    stub = EXERCISES[exercise].stub
    assert stub.count(BLANK) == 1
    return imports + stub.replace(BLANK, body(text))


def body(text: str) -> str:
    """Return lines as the body of a function."""
    return indent(dedent(text).lstrip("\n"), "    ")


NEGATION_HEAD = EXERCISES["double_negation"].stub.replace("    return program\n", "")
OWN_PASS_HEAD = EXERCISES["own_pass"].stub.replace("    return program\n", "")

RIGHT_LARGE: dict[str, dict[str, str]] = {
    "provenance": {
        "kernels counted by name": filled(
            "provenance",
            """
            counts = Counter(name for call in c.program.kernel_calls for name in call.origin)
            return [(s.name, counts[s.name]) for s in c.program.sources]
            """,
            "from collections import Counter\n",
        ),
        "kernels one after another": filled(
            "provenance",
            """
            rows = {source.name: 0 for source in c.program.sources}
            for call in c.program.kernel_calls:
                for name in call.origin:
                    if name in rows:
                        rows[name] += 1
            return list(rows.items())
            """,
        ),
    },
    "windows": {
        "steps until the end": edited(
            "windows", "floor_div(n - size, step) + 1", "floor_div(n - size + step, step)"
        ),
        "refused one by one": edited(
            "windows",
            '    if size < 1 or step < 1:\n        site.fail("size and step are 1 or more")',
            "    for name in ('size', 'step'):\n"
            "        if not site.integer(name) > 0:\n"
            "            site.fail(f'{name} is not positive')",
        ).replace("floor_div(n - size, step) + 1", "(n - size) // step + 1"),
    },
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
        "the sign of each value": NEGATION_HEAD
        + body(
            """
            signs = {}  # the name of a value -> the value that it is, and its sign
            body = []
            for binding in program.main.body:
                expr = binding.expr
                if isinstance(expr, OpCall) and expr.op == "Neg":
                    value, sign = signs.get(expr.args[0].name, (expr.args[0], 1))
                    signs[binding.var.name] = value, -sign
                    op = "Neg" if sign > 0 else "Identity"
                    binding = replace(binding, expr=OpCall(op, (value,), ()))
                body.append(binding)
            return program.with_body(tuple(body))
            """
        ),
        "pair after pair": NEGATION_HEAD
        + body(
            """
            body = list(program.main.body)

            def negated(value):
                for binding in body:
                    expr = binding.expr
                    is_call = isinstance(expr, OpCall) and binding.var.name == value.name
                    if is_call and expr.op == "Neg":
                        return expr.args[0]
                return None

            for number, binding in enumerate(body):
                if isinstance(binding.expr, OpCall) and binding.expr.op == "Neg":
                    inner = negated(binding.expr.args[0])
                    if inner is not None:
                        body[number] = replace(binding, expr=OpCall("Identity", (inner,), ()))
            return program.with_body(tuple(body))
            """
        ),
    },
    "large_values": {
        "the small ones first": filled(
            "large_values",
            """
            size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
            terms = (("moved", -float(size)),)
            if size <= LIMIT:
                return Candidate("", False, terms, refused=f"only {size:,} bytes")
            return Candidate("", True, terms)
            """,
        ),
        "from the shape": filled(
            "large_values",
            """
            spec = merge.consumer.spec(merge.tensor)
            size = ITEM_BYTES[spec.dtype] * prod(facts.env.hint(d) for d in spec.shape)
            is_large = size > LIMIT
            why = "" if is_large else f"{size} B stay near"
            return Candidate("", is_large, (("bytes", -2.0 * size),), why)
            """,
            "from math import prod\n\nfrom explorer.ir.types import ITEM_BYTES\n",
        ),
    },
    "pareto": {
        "each against all": filled(
            "pareto",
            """
            legal = [c for c in candidates(kernel, device, env, sizes, 200) if not c.refused]
            points = [(c.cost_us, elements(kernel, c.value, env)) for c in legal]

            def is_beaten(p):
                return any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)

            front = [n for n, p in enumerate(points) if not is_beaten(p)]
            for n in sorted(front, key=lambda n: points[n]):
                yield legal[n]
            """,
        ),
        "the fastest of each size": filled(
            "pareto",
            """
            fastest = {}
            for c in candidates(kernel, device, env, sizes, 200):
                size = elements(kernel, c.value, env)
                if not c.refused and (size not in fastest or c.cost_us < fastest[size].cost_us):
                    fastest[size] = c
            front = []
            for size in sorted(fastest):
                if not front or fastest[size].cost_us < front[-1].cost_us:
                    front.append(fastest[size])
            yield from reversed(front)
            """,
        ),
    },
    "constants": {
        "assigned in turns": filled(
            "constants",
            """
            flops, size, us = np.array(rows, dtype=float).T
            intensity = flops / size
            best = (np.inf, None)
            starts = np.sort(intensity)
            for ridge in (0.0, *(np.sqrt(starts[1:] * starts[:-1])), np.inf):
                waits = intensity <= ridge
                for _ in range(20):
                    fit = solved(flops, size, us, waits)
                    moved = size * fit[2] >= flops * fit[1]
                    if (moved == waits).all() or not fit[1] or not fit[2]:
                        break
                    waits = moved
                predicted = fit[0] + np.maximum(flops * fit[1], size * fit[2]) / 1e3
                error = np.abs(np.log(predicted / us)).sum() if predicted.min() > 0 else np.inf
                if error < best[0]:
                    best = (error, fit)
            launch, per_flop, per_byte = best[1]
            return launch, 1 / max(per_flop, 1e-9), 1 / max(per_byte, 1e-9)
            """,
        ).replace(
            "def constants(",
            dedent(
                '''\
                def solved(flops, size, us, waits):
                    """Fit launch, ns of an operation and ns of a byte to relative errors."""
                    fit = np.zeros(3)
                    terms = [np.ones(len(us)), flops / 1e3 * ~waits, size / 1e3 * waits]
                    terms = np.stack(terms, 1)
                    used = terms.any(axis=0)
                    terms = terms[:, used] / us[:, None]
                    scale = np.linalg.norm(terms, axis=0)
                    terms = terms / scale
                    left, right = terms.T @ terms, terms.T @ np.ones(len(us))
                    fit[used] = np.linalg.solve(left, right) / scale
                    return np.maximum(fit, 0)


                def constants('''
            ),
            1,
        ),
        "both rooms apart": filled(
            "constants",
            """
            rows = sorted(rows, key=lambda r: r[0] / r[1])
            flops, size, us = (np.array(column, dtype=float) for column in zip(*rows))
            every = []
            for split in range(len(rows) + 1):
                use = np.where(np.arange(len(rows)) < split, size, 0.0)
                use = [use, np.where(np.arange(len(rows)) < split, 0.0, flops)]
                columns = [np.ones(len(rows))] + [u for u in use if u.any()]
                norms = [np.abs(c / us).max() for c in columns]
                matrix = np.stack([c / us / n for c, n in zip(columns, norms)], axis=1)
                x = np.linalg.pinv(matrix, rcond=1e-12) @ np.ones(len(rows))
                x = list(np.maximum(x / norms, 1e-12))
                launch = x.pop(0)
                per_byte = x.pop(0) if use[0].any() else 1e-12
                per_flop = x.pop(0) if use[1].any() else 1e-12
                guess = launch + np.maximum(flops * per_flop, size * per_byte)
                every.append((float(np.square(guess / us - 1).sum()), launch, per_flop, per_byte))
            _, launch, per_flop, per_byte = min(every)
            return launch, 1e-3 / per_flop, 1e-3 / per_byte
            """,
        ),
    },
    "wall": {
        "a heap": filled(
            "wall",
            """
            free = [(0.0, unit) for unit in range(facts.device.units)]
            shares = []
            for number, operator in enumerate(facts.operators):
                for task in range(operator.tasks):
                    begin, unit = heappop(free)
                    shares.append(Share(number, unit, task, task + 1))
                    heappush(free, (begin + operator.task_us, unit))
            return Placement((tuple(shares),))
            """,
            "from heapq import heappop, heappush\n\n",
        ),
        "the last core of those": filled(
            "wall",
            """
            busy = np.zeros(facts.device.units)
            shares = []
            for number, operator in enumerate(facts.operators):
                for task in range(operator.tasks):
                    unit = len(busy) - 1 - int(busy[::-1].argmin())
                    busy[unit] += operator.task_us
                    shares.append(Share(number, unit, task, task + 1))
            return Placement((tuple(shares),))
            """,
            "import numpy as np\n\n",
        ),
    },
    "own_operator": {
        "three pieces": edited(
            "own_operator",
            EXERCISES["own_operator"]
            .solution.partition('its like."""\n')[2]
            .partition("\n\n\ndef in_numpy")[0],
            '    line = call("mul", x, call("add", x, 3.0, dtype=dtype))\n'
            '    line = call("div", line, 6.0, dtype=dtype)\n'
            '    below = call("where", call("lt", x, -3.0), 0.0, line, dtype=dtype)\n'
            '    return call("where", call("gt", x, 3.0), x, below, dtype=dtype)',
        ).replace(
            "return (x * np.clip(x + 3, 0, 6) / 6).astype(x.dtype)",
            "return np.where(x > 3, x, np.where(x < -3, 0, x * (x + 3) / 6)).astype(x.dtype)",
        ),
        "a clipped share": edited(
            "own_operator",
            EXERCISES["own_operator"]
            .solution.partition('its like."""\n')[2]
            .partition("\n\n\ndef in_numpy")[0],
            '    share = call("add", call("mul", x, 1 / 6, dtype=dtype), 0.5, dtype=dtype)\n'
            '    share = call("max", call("min", share, 1.0, dtype=dtype), 0.0, dtype=dtype)\n'
            '    return call("mul", share, x)',
        ).replace(
            "return (x * np.clip(x + 3, 0, 6) / 6).astype(x.dtype)",
            "return (np.minimum(np.maximum(x / 6 + 0.5, 0), 1) * x).astype(x.dtype)",
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
        "how many are faster": filled(
            "measuring",
            """
            faster = sum(y < x for x, y in zip(a, b))
            if 9 < faster < 21:  # of 30 tosses of a coin, 96 times in 100
                return "not distinguishable"
            return "faster" if faster > 15 else "slower"
            """,
        ),
    },
    "loop_inside": {
        "while": edited(
            "loop_inside",
            "    for _ in range(k):\n        x = a @ x\n        x = x / enp.sqrt((x * x).sum())\n",
            "    n = 0\n    while n < k:\n        y = a @ x\n"
            "        x = y / enp.sqrt((y * y).sum())\n        n += 1\n",
        ),
        "the square by a product": edited(
            "loop_inside",
            "        x = a @ x\n        x = x / enp.sqrt((x * x).sum())\n",
            "        x = a @ x\n        x = x * (1.0 / enp.sqrt(x.T @ x))\n",
        ),
    },
    "free_storage": {
        "one after another": filled(
            "free_storage",
            """
            best = None
            for buffer in free:
                least, _ = env.bounds(simplify(buffer.bytes - needed))
                if least is None or least < 0:
                    continue
                if best is None or env.hint(buffer.bytes) < env.hint(best.bytes):
                    best = buffer
            return best
            """,
            "from explorer.ir.dims import simplify\n\n\n",
        ),
        "in the order of their sizes": filled(
            "free_storage",
            """
            for buffer in sorted(free, key=lambda f: env.hint(f.bytes)):
                most = env.bounds(simplify(needed - buffer.bytes))[1]
                if most is not None and most <= 0:
                    return buffer
            return None
            """,
            "from explorer.ir.dims import simplify\n\n\n",
        ),
    },
    "bits": {
        "the last layer first": filled(
            "bits",
            """
            front = [(0, 0.0, ())]
            for layer in reversed(layers):
                longer = sorted(
                    (size + layer.bytes[n], error + layer.errors[n], (n, *bits))
                    for size, error, bits in front
                    for n in layer.errors
                )
                front = []
                for size, error, bits in longer:
                    if not front or error < front[-1][1]:
                        front.append((size, error, bits))
            return next((list(bits) for _, error, bits in front if error <= budget), None)
            """,
        ),
        "branch and bound": filled(
            "bits",
            """
            order = sorted(range(len(layers)), key=lambda i: -layers[i].bytes[8])
            best = [None, None]
            below = [(0, 0.0)]  # the fewest bytes and the least error of the layers that follow
            for i in reversed(order):
                size, error = below[-1]
                below.append((size + layers[i].bytes[2], error + layers[i].errors[8]))
            below.reverse()
            seen = {}

            def descend(depth, size, error, bits):
                fewest, least = below[depth]
                if error + least > budget or (best[0] is not None and size + fewest >= best[0]):
                    return
                if seen.get((depth, size), float("inf")) <= error:
                    return
                seen[depth, size] = error
                if depth == len(order):
                    best[:] = size, dict(zip(order, bits))
                    return
                layer = layers[order[depth]]
                for n in (2, 4, 8):
                    descend(depth + 1, size + layer.bytes[n], error + layer.errors[n], (*bits, n))

            descend(0, 0, 0.0, ())
            return None if best[1] is None else [best[1][i] for i in range(len(layers))]
            """,
        ),
    },
    "vjp": {
        "two terms": edited(
            "vjp",
            "    return y * (g - (g * y).sum(axis=-1, keepdims=True))\n",
            "    first = y * g\n    return first - y * first.sum(axis=-1, keepdims=True)\n",
        ),
        "by the logarithm": edited(
            "vjp",
            "    e = enp.exp(x - x.max(axis=-1, keepdims=True))\n"
            "    y = e / e.sum(axis=-1, keepdims=True)\n",
            "    shifted = x - x.max(axis=-1, keepdims=True)\n"
            "    total = enp.exp(shifted).sum(axis=-1, keepdims=True)\n"
            "    y = enp.exp(shifted - enp.log(total))\n",
        ),
    },
    "own_pass": {
        "only the left factor": edited(
            "own_pass",
            "        for inner in factors(binding):\n",
            "        for inner in factors(binding)[:1]:\n",
        ),
        "a product with a vector": OWN_PASS_HEAD
        + body(
            """
            read = [v.name for b in program.main.body for v in b.reads]
            read += [v.name for v in program.main.outputs]
            products, body = {}, []
            for b in program.main.body:
                if isinstance(b.expr, OpCall) and b.expr.op == "MatMul":
                    left, v = b.expr.args
                    inner = products.get(left.name)
                    is_vector = len(v.tensor.dims) == 2 and v.tensor.dims[1] == 1
                    if inner is not None and is_vector and read.count(left.name) == 1:
                        first, second = inner.expr.args
                        dims = (second.tensor.dims[0], 1)
                        new = Var(b.var.name + ".v", Tensor(dims, b.var.tensor.element))
                        origin = b.origin | inner.origin
                        body.append(Binding((new,), OpCall("MatMul", (second, v), ()), origin))
                        b = replace(b, expr=OpCall("MatMul", (first, new), ()), origin=origin)
                    elif len(left.tensor.dims) == 2 and len(v.tensor.dims) == 2:
                        products[b.var.name] = b
                body.append(b)
            return program.with_body(tuple(body))
            """
        ),
        "rows before the product": OWN_PASS_HEAD
        + body(
            """
            read = Counter(v.name for b in program.main.body for v in b.reads)
            read.update(v.name for v in program.main.outputs)
            products, body = {}, []
            for b in program.main.body:
                expr = b.expr
                if isinstance(expr, OpCall) and expr.op == "MatMul":
                    if all(len(a.tensor.dims) == 2 for a in expr.args):
                        products[b.var.name] = b
                if isinstance(expr, OpCall) and expr.op == "Slice":
                    product = products.get(expr.args[0].name)
                    is_rows = dict(expr.attrs).get("axes") == (0,) and len(expr.args) == 1
                    if product is not None and is_rows and read[expr.args[0].name] == 1:
                        left, right = product.expr.args
                        dims = (b.var.tensor.dims[0], left.tensor.dims[1])
                        new = Var(b.var.name + ".rows", Tensor(dims, left.tensor.element))
                        origin = b.origin | product.origin
                        body.append(Binding((new,), replace(expr, args=(left,)), origin))
                        b = replace(b, expr=OpCall("MatMul", (new, right), ()), origin=origin)
                body.append(b)
            return program.with_body(tuple(body))
            """
        ),
    },
}
