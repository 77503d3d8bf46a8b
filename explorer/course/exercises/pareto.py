"""Exercise: a tile policy that returns the Pareto front of time and size."""

from __future__ import annotations

from random import Random
from typing import Any

from explorer.compiler import compile, device_of
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.trace import trace
from explorer.frontends.tracing.annotations import tensor
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.options import Options
from explorer.roller import Options as Roller
from explorer.roller.policy import tile_candidates

MANY = 200  # candidates that the check requests
TARGETS = ("cpu-avx2", "cpu-avx512")


def elements(kernel: Any, tiling: Tiling, env: Any) -> int:
    """Return the number of elements of a tile of the result."""
    count = 1
    for axis in kernel.computes[-1].axes:
        count *= tiling.size(axis.name) or env.hint(axis.extent)
    return count


def _product(m: int, n: int, k: int) -> Any:
    model = trace(lambda a, b: a @ b)(tensor("float32", m, k), tensor("float32", k, n))
    return load(model)


def _pareto_front(legal: list[Candidate[Tiling]], kernel: Any, env: Any) -> set[tuple[float, int]]:
    points = {(c.cost_us, elements(kernel, c.value, env)) for c in legal}
    return {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}


def _check_front(answer: Any, m: int, n: int, k: int, target: str) -> None:
    device = device_of(target)
    c = compile(_product(m, n, k), target=device, until="welded")
    kernel, env = c.program.kernel_calls[0].kernel_call.kernel, c.program.env
    legal = [x for x in tile_candidates(kernel, device, env, {}, MANY) if not x.refused]
    returned = list(answer(kernel, device, env, {}))
    name = f"{m} x {n} x {k} on {target}"
    require(bool(returned), f"{name}: no tile at all")
    require(
        all(not x.refused for x in returned), f"{name}: a tile that breaks a rule is among them"
    )
    points = [(x.cost_us, elements(kernel, x.value, env)) for x in returned]
    front = _pareto_front(legal, kernel, env)
    extra = sorted(set(points) - front)
    require(
        not extra,
        f"{name}: a tile of {extra[0][1] if extra else 0} elements at "
        f"{extra[0][0] if extra else 0:.2f} us is beaten by another in both",
    )
    missing = sorted(front - set(points))
    require(
        not missing,
        f"{name}: a tile of {missing[0][1] if missing else 0} elements at "
        f"{missing[0][0] if missing else 0:.2f} us is not beaten, and not given",
    )
    require(points == sorted(points), f"{name}: the fastest by the model must come first")


def _check_fixed_product(answer: Any, seed: int) -> None:
    for target in TARGETS:
        _check_front(answer, 256, 512, 384, target)


def _check_random_products(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(3):
        m, n, k = (rng.choice((1, 7, 32, 100, 128, 333)) for _ in range(3))
        _check_front(answer, m, n, k, rng.choice(TARGETS))


def _check_in_pipeline(answer: Any, seed: int) -> None:
    """Check the answer as Roller's policy: its first tile is used, and the values are right."""
    options = Options(roller=Roller(policy=answer), registered=False)
    c = compile(_product(40, 96, 24), options=options, check=True)
    wrong = [f"{s.name}: {s.checked}" for s in c.snapshots if isinstance(s.checked, str)]
    require(not wrong, "; ".join(wrong))
    (decision,) = c.program.decisions.tilings
    kernel = c.program.kernel_calls[0].kernel_call.kernel
    first = next(iter(answer(kernel, c.device, c.program.env, {})))
    require(decision.chosen == first.value, "the tile in use is not the first that it gives")


_HEAD = '''\
from explorer.roller.policy import candidates


def elements(kernel, tiling, env):
    """Return the number of elements of a tile of the result."""
    count = 1
    for axis in kernel.computes[-1].axes:
        count *= tiling.size(axis.name) or env.hint(axis.extent)
    return count


def pareto(kernel, device, env, sizes):
    """Yield the tiles that no other beats in both time and size, the fastest first."""
'''

EXERCISE = Exercise(
    name="pareto",
    chapter="04_tiles",
    title="Pareto-optimal tiles",
    goal="A small tile leaves more tasks for the cores; a large one reads less. Write a Roller "
    "policy `pareto` that yields the Pareto-optimal legal tiles, the fastest first. A tile "
    "is Pareto-optimal if no other tile is better in predicted time (`cost_us`) or in "
    "number of `elements` without being worse in the other; less is better. The compiler "
    "uses the first one.",
    answer="pareto",
    stub=_HEAD + "    raise NotImplementedError\n",
    solution=_HEAD
    + """\
    every = candidates(kernel, device, env, sizes, 200)
    legal = [c for c in every if not c.refused]
    points = sorted(
        ((c.cost_us, elements(kernel, c.value, env), n) for n, c in enumerate(legal))
    )
    least = float("inf")
    for _, size, n in points:
        if size < least:
            least = size
            yield legal[n]
""",
    hints=(
        "A candidate that breaks a rule has `refused`: leave it out.",
        "Sort by time. A tile is then dominated if an earlier one is not larger.",
        "One number is therefore enough for a scan of the sorted list: the smallest size so far.",
    ),
    checks=(
        Check("one product on two machines", 2, _check_fixed_product),
        Check("random products", 2, _check_random_products),
        Check("in the pipeline, as Roller's policy", 1, _check_in_pipeline),
        Check("other products", 1, lambda a, seed: _check_random_products(a, seed + 1), True),
    ),
    exit_question="Which third property of a tile would you compare on a GPU?",
    policy_of="roller",
)
