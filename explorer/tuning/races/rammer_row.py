"""One model under each of Rammer's policies, and in other runtimes: compiled once, planned and run
under each policy, compared and timed in one run.

    python -m explorer.tuning.races.rammer_row zoo:small_lstm --threads 2 --seconds 2

prints the row as JSON. The plans use measured times of tasks (`Compilation.profiled`).
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from explorer.compilation import Compilation
from explorer.compiler import compile as compile_model
from explorer.errors import InternalFault, IronworksError
from explorer.frontends.load import load
from explorer.measure.compare import comparison, measurement
from explorer.measure.machine import machine
from explorer.measure.quiet import Watch
from explorer.measure.turns import Clock, Watcher, Work, take_turns
from explorer.measure.walls import compare_walls
from explorer.options import Options
from explorer.rammer import POLICIES
from explorer.rammer import Options as RammerOptions
from explorer.tuning.answers import check_answers
from explorer.tuning.peers.runtimes import Peer, entered, known_peers
from explorer.tuning.races.rows import Say, print_row
from explorer.tuning.races.side_by_side import side
from explorer.tuning.races.timed import Ratio, Timed
from explorer.tuning.races.weld_row import SIZES

AGAINST = ("onnxruntime", "torch", "torch.compile", "jax")
BASELINE = "op-by-op"
WALLS = 9  # stamped runs, of which the one of the median makespan counts; chosen


@dataclass(frozen=True, slots=True)
class Planned:
    """A model under one policy. Times are microseconds; `wall_us` is the makespan by time stamps,
    of a run that is slowed down by taking them. `barriers`: waits of one unit for another.
    """

    policy: str
    planned_us: float
    wall_us: float
    rank_correlation: float | None  # of the bricks' lengths; None where all are planned alike
    launches: int
    barriers: int
    busy: float  # the share of units times time that planned bricks fill
    idle: Mapping[str, float]  # planned, by cause, in microseconds of all units together
    plan_seconds: float

    @property
    def error(self) -> float:
        """How far the plan is off, as a share of the measured makespan."""
        return (self.planned_us - self.wall_us) / self.wall_us


@dataclass(frozen=True, slots=True)
class RammerRow:
    """A model. `policies` are the times of the policies over that of the fastest of them, which is
    what `against`, the times of the others, are held against.
    """

    model: str
    threads: int
    machine: str
    seconds: float  # that were asked for
    times: tuple[Timed, ...]  # the policies, then the others
    plans: tuple[Planned, ...]
    policies: Mapping[str, Ratio]
    against: Mapping[str, Ratio]
    skipped: Mapping[str, str]
    calls: int  # of kernels, in a run
    compile_seconds: float
    peak_bytes: int  # of the process

    @property
    def fastest(self) -> str:
        """The policy of the least median time."""
        return min(self.times[: len(self.plans)], key=lambda t: t.median_us).name

    @property
    def fastest_other(self) -> str:
        """The other runtime of the least median time, "" where none ran."""
        others = self.times[len(self.plans) :]
        return min(others, key=lambda t: t.median_us).name if others else ""

    @property
    def ratio(self) -> Ratio | None:
        """The fastest other's time over that of the fastest policy."""
        return self.against.get(self.fastest_other)

    @property
    def plan(self) -> Planned:
        """The fastest policy's."""
        return next(p for p in self.plans if p.policy == self.fastest)

    @staticmethod
    def read(fields: Mapping[str, Any]) -> RammerRow:
        """The row that was written as JSON by `asdict`."""
        made = dict(fields)
        made["times"] = tuple(Timed(**t) for t in fields["times"])
        made["plans"] = tuple(Planned(**p) for p in fields["plans"])
        for name in ("policies", "against"):
            made[name] = {n: Ratio(**r) for n, r in fields[name].items()}
        return RammerRow(**made)


@dataclass(frozen=True, slots=True)
class Field:
    """All that runs a model here, its answers found to agree."""

    compiled: Compilation  # from which those of the policies are made
    ours: Mapping[str, Compilation]  # by policy
    plans: tuple[Planned, ...]
    inputs: Mapping[str, np.ndarray]
    peers: tuple[Peer, ...]
    errors: tuple[float, ...]  # of the policies, then of the others, against the first policy
    skipped: Mapping[str, str]

    @property
    def works(self) -> list[Work]:
        """What is timed: the policies, the others."""
        ours = [partial(c.run, self.inputs) for c in self.ours.values()]
        return [*ours, *(p.run for p in self.peers)]


def rammer_row(
    name: str,
    threads: int,
    seconds: float,
    say: Say,
    against: Sequence[str] = AGAINST,
    clock: Clock = perf_counter_ns,
) -> RammerRow:
    """The row of a model: an ONNX file, or zoo:NAME.

    Raises AnswerMismatch, before anything is raced, where a policy or a runtime differs from the
    first policy beyond 1e-4 of the largest answer.
    """
    with ExitStack() as stack:
        field = prepared(name, threads, say, stack, against)
        say(f"{name}: timing for {seconds:g} s")
        return row_of(field, threads, seconds, clock)


def prepared(
    name: str, threads: int, say: Say, stack: ExitStack, against: Sequence[str] = AGAINST
) -> Field:
    """Every policy and the others, warmed up, with equal answers.

    Raises BadOption for a runtime that is not known.
    """
    known_peers(against)
    say(f"{name}: compiling it")
    options = Options(rammer=RammerOptions(threads=threads))
    first = compile_model(load(name), options=options)
    sizes = {n: v for n, v in SIZES.items() if n in first.hint}
    inputs = {n: np.ascontiguousarray(a) for n, a in first.random_inputs(sizes).items()}
    answer = first.run(inputs)
    say(f"{name}: timing its tasks")
    measured = first.profiled(inputs)
    ours: dict[str, Compilation] = {}
    plans, errors, skipped = [], [], {}
    for policy in POLICIES:
        say(f"{name}: planning it, {policy}")
        try:
            begin = perf_counter()
            compiled = measured.with_options(rammer=replace(measured.options.rammer, policy=policy))
            found = compiled.run(inputs)
            seconds = perf_counter() - begin
            plans.append(_planned(policy, compiled, inputs, sizes, seconds))
        except InternalFault:
            raise
        except IronworksError as problem:
            skipped[policy] = problem.sentence
            continue
        errors.append(check_answers(answer, found, policy))
        ours[policy] = compiled
    say(f"{name}: loading it into {', '.join(against) or 'nothing else'}")
    peers, missing = entered(against, first.model, inputs, threads, stack)
    errors += [check_answers(answer, peer.run(), peer.name) for peer in peers]
    return Field(first, ours, tuple(plans), inputs, tuple(peers), tuple(errors), skipped | missing)


def row_of(
    field: Field,
    threads: int,
    seconds: float,
    clock: Clock = perf_counter_ns,
    watch: Watcher | None = None,
) -> RammerRow:
    """Everybody timed in turns, each of which begins when the others' threads are at rest."""
    series = take_turns(field.works, seconds, clock, watch or Watch())
    count = len(field.ours)
    names = [*field.ours, *(p.name for p in field.peers)]
    how = [*[""] * count, *(p.version for p in field.peers)]
    times = tuple(map(Timed.of, names, map(measurement, series), how, field.errors))
    best = min(range(count), key=lambda n: times[n].median_us)
    ratios = [Ratio.of(comparison(series[best], other)) for other in series]
    return RammerRow(
        field.compiled.model.name,
        threads,
        machine().line,
        seconds,
        times,
        field.plans,
        dict(zip(names[:count], ratios[:count])),
        dict(zip(names[count:], ratios[count:])),
        field.skipped,
        len(field.compiled.program.kernel_calls),
        round(field.compiled.seconds, 3),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _planned(
    policy: str,
    c: Compilation,
    inputs: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    seconds: float,
) -> Planned:
    plan = side(c, sizes)
    walls = compare_walls(plan.wall, c.measured_wall(inputs, WALLS))
    rank = walls.rank_correlation
    return Planned(
        policy,
        walls.planned_us,
        walls.measured_us,
        None if isnan(rank) else rank,
        plan.account.launches,
        plan.barriers,
        plan.account.busy,
        dict(plan.account.idle),
        round(seconds, 3),
    )


if __name__ == "__main__":
    sys.exit(print_row("rammer_row", rammer_row, AGAINST, None))
