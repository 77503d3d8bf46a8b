"""Exercises on policies of fusion (chapter 03) and of tiles (chapter 04)."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice, pairwise
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile, device_of
from explorer.course.exercise import Check, Exercise, Wrong, require
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.roller import Options as Roller
from explorer.roller.policy import tile_candidates
from explorer.welder import Options as Welder
from explorer.welder.model import bytes_at_hint
from explorer.welder.policy import ByPairs

NEAR_BYTES = 16 * 1024
FUSION_MODELS = ("zoo:small_nerf", "zoo:tiny_bert")


Chain = tuple[int, tuple[int, ...]]  # its rows and widths


def _chain(x: Any, widths: tuple[int, ...]) -> Any:
    """Return a product and an exp for each width but the first, one after another."""
    for pair in pairwise(widths):
        x = enp.exp(x @ np.ones(pair, np.float32))
    return x


def _model(spec: Any) -> Any:
    """Return a model of the zoo by name, a chain, or four chains in a model."""
    match spec:
        case str():
            return spec
        case (int(rows), widths):
            return load(trace(lambda x: _chain(x, widths))(tensor("float32", rows, widths[0])))
    widths = [w for _, w in spec]
    model = trace(lambda a, b, c, d: tuple(map(_chain, (a, b, c, d), widths)))
    return load(model(*(tensor("float32", rows, w[0]) for rows, w in spec)))


def _groups(model: Any, verdict: Any) -> tuple[Any, ...]:
    options = Options(welder=Welder(policy=ByPairs(verdict)), registered=False)
    c = compile(model, options=options, until="welded")
    graph = c.program.decisions.tile_graph
    return graph.groups if graph is not None else ()


Decision = tuple[bool, tuple[tuple[str, float], ...], str]  # the fields of a Candidate


def _record_decisions(answer: Any, spec: Any) -> list[Decision]:
    """Return what a verdict decides about each merge of a model, in the order of the calls."""
    decisions: list[Decision] = []

    def recording(merge: Any, facts: Any) -> Any:
        decision = answer(merge, facts)
        if isinstance(decision, Candidate):
            terms = tuple((str(name), float(number)) for name, number in decision.terms)
            decisions.append((bool(decision.value), terms, str(decision.refused)))
        return decision

    _groups(_model(spec), recording)
    return decisions


def _replay_decisions(answer: Any, spec: Any, name: str) -> tuple[Any, list[tuple[int, str]]]:
    """Return the groups by the recorded decisions, and the bytes and refusal of each merge."""
    recorded = answer.run(_record_decisions, spec)
    require(isinstance(recorded, list), f"{name}: the decisions cannot be read")
    pending, seen = list(recorded), list[tuple[int, str]]()

    def verdict(merge: Any, facts: Any) -> Any:
        match pending.pop(0) if pending else None:
            case (bool(value), tuple(terms), str(refused)):
                size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
                seen.append((size, refused))
                return Candidate("", value, terms, refused)
        raise Wrong(f"{name}: a merge has no decision")

    groups = _groups(_model(spec), verdict)
    require(not pending, f"{name}: there are {len(pending)} decisions about no merge")
    return groups, seen


def _check_decisions(answer: Any, spec: Any, name: str) -> None:
    """Check that every merge was decided by the size of the value between its kernels."""
    for size, refused in _replay_decisions(answer, spec, name)[1]:
        require(
            bool(refused) == (size <= NEAR_BYTES),
            f"{name}: a value of {size} bytes {'is stored' if refused else 'stays on the chip'}, "
            f"and the limit is {NEAR_BYTES}",
        )
        require(
            not refused or str(size) in refused.replace(",", ""),
            f"{name}: a value of {size} bytes is refused, and the reason does not say how large it "
            f"is: {refused!r}",
        )


def _check_near_limit(answer: Any, seed: int) -> None:
    for rows in (63, 64, 65):  # 64 rows of 64: exactly the limit
        _check_decisions(answer, (rows, (64, 64, 64)), f"{rows} rows of 64")


def _check_random_chains(answer: Any, seed: int) -> None:
    rng = Random(seed)
    chains: list[Chain] = []
    for _ in range(4):
        rows, widths = rng.randint(1, 200), tuple(rng.randint(1, 120) for _ in range(4))
        chains.append((rows, widths))
    words = "; ".join(f"{rows} rows, widths {list(widths)}" for rows, widths in chains)
    _check_decisions(answer, chains, words)


def _check_traffic(answer: Any, seed: int) -> None:
    """Check the memory traffic between the kernels of a model."""
    groups, _ = _replay_decisions(answer, (256, (32, 64, 32)), "256 rows")
    moved = sum(g.bytes_after for g in groups)
    apart = sum(g.bytes_before for g in groups)
    most = apart - 2 * 2 * 256 * 32 * 4  # at least both exps are fused with their products
    require(moved <= most, f"{moved:,} bytes to and from memory; {most:,} are enough")


def _check_zoo_models(answer: Any, seed: int) -> None:
    for model in FUSION_MODELS:
        _check_decisions(answer, model, model)


_LARGE_VALUES_HEAD = '''\
from explorer.ir.decisions.candidate import Candidate
from explorer.welder.model import bytes_at_hint
from explorer.welder.policy import ByPairs

LIMIT = 16 * 1024  # bytes that stay in the nearest cache


def verdict(merge, facts):
    """Return a candidate that accepts or refuses to fuse `merge.producer` into `merge.consumer`."""
'''
_LARGE_VALUES_END = "\n\nlarge_values = ByPairs(verdict)\n"

LARGE_VALUES = Exercise(
    name="large_values",
    chapter="03_fusion",
    title="A fusion policy with one threshold",
    goal="A value of at most 16 KiB stays in the nearest cache, whether its kernels are fused or "
    "not; a larger one goes to memory and back. Write `verdict(merge, facts)`. If the value "
    "between the kernels has more than `LIMIT` bytes, return `Candidate('', True, terms)`, "
    "which fuses them. Otherwise return `Candidate('', False, terms, refused)`, where "
    "`refused` states the number of bytes. `merge` has two kernels, `.producer` and `.consumer`, "
    "and the `.tensor` between them, by its name in the consumer; "
    "`bytes_at_hint(kernel, tensor, facts.env)` returns the bytes of a tensor of a kernel. "
    "`terms` are pairs of words and numbers for explorers, and may be `()`. `ByPairs(verdict)` "
    "is a policy like the built-in ones.",
    answer="verdict",
    stub=_LARGE_VALUES_HEAD + "    raise NotImplementedError\n" + _LARGE_VALUES_END,
    solution=_LARGE_VALUES_HEAD
    + """\
    size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
    saved = (("bytes between", -2.0 * size),)
    if size > LIMIT:
        return Candidate("", True, saved)
    return Candidate("", False, saved, f"{size} bytes stay in the cache")
"""
    + _LARGE_VALUES_END,
    hints=(
        "`bytes_at_hint(merge.consumer, merge.tensor, facts.env)` is the size of the value.",
        "A value of exactly `LIMIT` bytes stays in the cache.",
        "The reason is the fourth field of a Candidate: an f-string with the size.",
    ),
    checks=(
        Check("just below the limit, at it, and above", 2, _check_near_limit),
        Check("random chains of products", 2, _check_random_chains),
        Check("bytes to and from memory", 1, _check_traffic),
        Check("two models of the zoo", 1, _check_zoo_models, True),
    ),
    exit_question="What does this policy ignore, and which model would be slower because of it?",
    policy_of="welder",
    as_policy=ByPairs,
)


MANY = 200  # candidates that the check requests
PRODUCTS = 512  # in memory: more than the check of random products can draw
TILE_TARGETS = ("cpu-avx2", "cpu-avx512")


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


Product = tuple[int, int, int]


@lru_cache(maxsize=PRODUCTS)
def _compiled_product(product: Product, target: str) -> tuple[Any, Any, Any]:
    """Return the kernel of a product, the device and the sizes."""
    device = device_of(target)
    c = compile(_product(*product), target=device, until="welded")
    return c.program.kernel_calls[0].kernel_call.kernel, device, c.program.env


@lru_cache(maxsize=PRODUCTS)
def _legal_tiles_of(product: Product, target: str) -> list[Candidate[Tiling]]:
    return _legal_tiles(*_compiled_product(product, target))


def _legal_tiles(kernel: Any, device: Any, env: Any) -> list[Candidate[Tiling]]:
    return [x for x in tile_candidates(kernel, device, env, {}, MANY) if not x.refused]


def _record_tiles(answer: Any, product: Product, target: str) -> list[int]:
    """Return the numbers of the tiles that the answer yields for a product."""
    compiled = _compiled_product(product, target)
    return _numbers(answer(*compiled, {}), _legal_tiles_of(product, target))


def _numbers(tiles: Any, legal: list[Candidate[Tiling]]) -> list[int]:
    """Return the numbers of the yielded tiles among the legal ones; -1: it is not one of them."""
    numbers = {x.value: n for n, x in enumerate(legal)}
    yielded = islice(tiles, MANY)
    return [-1 if x.refused else numbers.get(x.value, -1) for x in yielded]


def _tiles(numbers: Any, legal: list[Candidate[Tiling]], name: str) -> list[Candidate[Tiling]]:
    """Return the tiles of some numbers."""
    require(bool(numbers), f"{name}: no tile at all")
    require(
        isinstance(numbers, list) and all(type(n) is int and 0 <= n < len(legal) for n in numbers),
        f"{name}: a tile that breaks a rule is among them",
    )
    return [legal[n] for n in numbers]


def _check_front(answer: Any, m: int, n: int, k: int, target: str) -> None:
    name = f"{m} x {n} x {k} on {target}"
    kernel, _, env = _compiled_product((m, n, k), target)
    legal = _legal_tiles_of((m, n, k), target)
    returned = _tiles(answer.run(_record_tiles, (m, n, k), target), legal, name)
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
    for target in TILE_TARGETS:
        _check_front(answer, 256, 512, 384, target)


def _check_random_products(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(3):
        m, n, k = (rng.choice((1, 7, 32, 100, 128, 333)) for _ in range(3))
        _check_front(answer, m, n, k, rng.choice(TILE_TARGETS))


TILED = (40, 96, 24)


def _compile_tiled(policy: Any, until: str = "emitted", check: bool = False) -> Any:
    options = Options(roller=Roller(policy=policy), registered=False)
    return compile(_product(*TILED), options=options, until=until, check=check)


def _record_policy(answer: Any) -> list[list[int]]:
    """Return the numbers of the tiles that the answer yields in each call by the compiler."""
    recorded: list[list[int]] = []

    def recording(kernel: Any, device: Any, env: Any, sizes: Any) -> Any:
        legal = _legal_tiles(kernel, device, env)
        recorded.append(_numbers(answer(kernel, device, env, {}), legal))
        yield from answer(kernel, device, env, sizes)

    _compile_tiled(recording, "rolled")
    return recorded


def _check_in_pipeline(answer: Any, seed: int) -> None:
    """Check the answer as Roller's policy: its first tile is used, and the values are right."""
    recorded = answer.run(_record_policy)
    require(isinstance(recorded, list), "the tiles cannot be read")
    first: list[int] = []

    def pareto(kernel: Any, device: Any, env: Any, sizes: Any) -> Any:
        require(bool(recorded), "a kernel has no tiles")
        numbers = recorded.pop(0)
        tiles = _tiles(numbers, _legal_tiles(kernel, device, env), "40 x 96 x 24")
        first.append(numbers[0])
        yield from tiles

    c = _compile_tiled(pareto, check=True)
    wrong = [f"{s.name}: {s.checked}" for s in c.snapshots if isinstance(s.checked, str)]
    require(not wrong, "; ".join(wrong))
    (decision,) = c.program.decisions.tilings
    kernel = c.program.kernel_calls[0].kernel_call.kernel  # with other names of axes
    legal = _legal_tiles(kernel, c.device, c.program.env)
    require(
        decision.chosen in [legal[n].value for n in first],
        "the tile in use is not the first that it gives",
    )


_PARETO_HEAD = '''\
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

PARETO = Exercise(
    name="pareto",
    chapter="04_tiles",
    title="Pareto-optimal tiles",
    goal="A small tile leaves more tasks for the cores; a large one reads less. Write a Roller "
    "policy `pareto` that yields the Pareto-optimal legal tiles, the fastest first. A tile "
    "is Pareto-optimal if no other tile is better in predicted time (`cost_us`) or in "
    "number of `elements` without being worse in the other; less is better. The compiler "
    "uses the first one. `candidates(kernel, device, env, sizes, top_k)` yields the `top_k` best "
    "legal tiles, 10 if it is left out, and then some illegal ones: compare 200. What it yields "
    "has its tile in `.value`, and in `.refused` the rule that it breaks. Yield it as it is.",
    answer="pareto",
    stub=_PARETO_HEAD + "    raise NotImplementedError\n",
    solution=_PARETO_HEAD
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
        "A candidate that breaks a rule has a reason in `refused`: leave it out.",
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
