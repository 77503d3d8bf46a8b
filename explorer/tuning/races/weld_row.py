"""One model welded, unwelded, and in other runtimes: compiled, compared and timed in one run.

    python -m explorer.tuning.races.weld_row zoo:small_vit --threads 2 --seconds 2

prints the row as JSON. It is a process of its own, so that a model's memory is given back, and
NumPy's BLAS is told before it is loaded to let go of its cores.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter_ns

import numpy as np

from explorer.compilation import Compilation
from explorer.compiler import compile as compile_model
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.measure.compare import comparison, measurement
from explorer.measure.machine import machine
from explorer.measure.quiet import Watch
from explorer.measure.turns import Clock, Watcher, Work, take_turns
from explorer.options import Options
from explorer.rammer import Options as RammerOptions
from explorer.tuning.answers import check_answers
from explorer.tuning.peers.runtimes import Peer, entered, known_peers
from explorer.tuning.races.rows import Say, print_row
from explorer.tuning.races.timed import Ratio, Timed
from explorer.welder import plan_group

AGAINST = ("onnxruntime", "torch", "torch.compile")
WELDED, UNWELDED = "welded", "unwelded"
SIZES = {"batch": 1, "seq": 128}  # of symbolic dims, by name; others are at their hints


@dataclass(frozen=True, slots=True)
class Made:
    """One of our two compilations. `dram_bytes`: to and from memory, by the model."""

    kernels: int
    dram_bytes: int
    compile_seconds: float


@dataclass(frozen=True, slots=True)
class WeldRow:
    """A model. `welding` is the unwelded time over the welded one; `against` the times of the
    others over it, by name.
    """

    model: str
    threads: int
    machine: str
    seconds: float  # that were asked for
    times: tuple[Timed, ...]  # welded, unwelded, then the others
    welded: Made
    unwelded: Made
    welding: Ratio
    against: Mapping[str, Ratio]
    skipped: Mapping[str, str]
    peak_bytes: int  # of the process

    @property
    def fastest_other(self) -> str:
        """The other runtime of the least median time, "" where none ran."""
        return min(self.times[2:], key=lambda t: t.median_us, default=self.times[0]).name * bool(
            self.against
        )

    @property
    def ratio(self) -> Ratio | None:
        """The fastest other's time over ours."""
        return self.against.get(self.fastest_other)

    @staticmethod
    def read(fields: Mapping[str, object]) -> WeldRow:
        """The row that was written as JSON by `asdict`."""
        made = dict(fields)
        made["times"] = tuple(Timed(**t) for t in fields["times"])  # type: ignore[attr-defined]
        made |= {n: Made(**fields[n]) for n in (WELDED, UNWELDED)}  # type: ignore[arg-type]
        made["welding"] = Ratio(**fields["welding"])  # type: ignore[arg-type]
        against: Mapping[str, dict[str, object]] = fields["against"]  # type: ignore[assignment]
        made["against"] = {n: Ratio(**r) for n, r in against.items()}  # type: ignore[arg-type]
        return WeldRow(**made)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Field:
    """All that runs a model here, its answers found to agree."""

    model: Model
    ours: tuple[Compilation, Compilation]  # welded, unwelded
    inputs: Mapping[str, np.ndarray]
    peers: tuple[Peer, ...]
    errors: tuple[float, ...]  # of the unwelded one, then of the others
    skipped: Mapping[str, str]

    @property
    def works(self) -> list[Work]:
        """What is timed: welded, unwelded, the others."""
        ours = [partial(c.run, self.inputs) for c in self.ours]
        return [*ours, *(p.run for p in self.peers)]


def weld_row(
    name: str,
    threads: int,
    seconds: float,
    say: Say,
    against: Sequence[str] = AGAINST,
    clock: Clock = perf_counter_ns,
) -> WeldRow:
    """The row of a model: an ONNX file, or zoo:NAME.

    Raises AnswerMismatch, before anything is timed, where one of the runtimes differs from us
    beyond 1e-4 of the largest answer.
    """
    with ExitStack() as stack:
        field = prepared(name, threads, say, stack, against)
        say(f"{field.model.name}: timing for {seconds:g} s")
        return row_of(field, threads, seconds, clock)


def prepared(
    name: str, threads: int, say: Say, stack: ExitStack, against: Sequence[str] = AGAINST
) -> Field:
    """Both compilations and the others, warmed up, with equal answers.

    Raises BadOption for a runtime that is not known.
    """
    known_peers(against)
    say(f"{name}: reading")
    model = load(name)
    ours = []
    for welded in (True, False):
        say(f"{model.name}: compiling it {'welded' if welded else 'unwelded'}")
        ours.append(_compiled(model, threads, welded))
    sizes = {n: v for n, v in SIZES.items() if n in ours[0].hint}
    inputs = {n: np.ascontiguousarray(a) for n, a in ours[0].random_inputs(sizes).items()}
    answer = ours[0].run(inputs)
    errors = [check_answers(answer, ours[1].run(inputs), UNWELDED)]
    say(f"{model.name}: loading it into {', '.join(against) or 'nothing else'}")
    peers, skipped = entered(against, model, inputs, threads, stack)
    errors += [check_answers(answer, peer.run(), peer.name) for peer in peers]
    return Field(model, (ours[0], ours[1]), inputs, tuple(peers), tuple(errors), skipped)


def row_of(
    field: Field,
    threads: int,
    seconds: float,
    clock: Clock = perf_counter_ns,
    watch: Watcher | None = None,
) -> WeldRow:
    """Everybody timed in turns, each of which begins when the others' threads are at rest."""
    series = take_turns(field.works, seconds, clock, watch or Watch())
    names = [WELDED, UNWELDED, *(p.name for p in field.peers)]
    how = ["", "", *(p.version for p in field.peers)]
    times = map(Timed.of, names, map(measurement, series), how, (0.0, *field.errors))
    ratios = [Ratio.of(comparison(series[0], other)) for other in series[1:]]
    return WeldRow(
        field.model.name,
        threads,
        machine().line,
        seconds,
        tuple(times),
        _made(field.ours[0]),
        _made(field.ours[1]),
        ratios[0],
        dict(zip(names[2:], ratios[1:], strict=True)),
        field.skipped,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def dram_bytes(c: Compilation) -> int:
    """What the kernels move to and from memory behind the last cache, by Welder's model."""
    return sum(_moved(c))


def _moved(c: Compilation) -> Iterator[int]:
    env = c.program.env
    for b in c.program.kernel_calls:
        yield (
            plan_group(b.kernel_call.kernel, c.device, env, b.kernel_call.tiling).levels[-2].traffic
        )


def _compiled(model: Model, threads: int, welded: bool) -> Compilation:
    options = Options(rammer=RammerOptions(threads=threads))
    welder = replace(options.welder, enabled=welded)
    return compile_model(model, options=replace(options, welder=welder))


def _made(c: Compilation) -> Made:
    return Made(len(c.program.kernel_calls), dram_bytes(c), round(c.seconds, 3))


if __name__ == "__main__":
    sys.exit(print_row("weld_row", weld_row, AGAINST, None))
