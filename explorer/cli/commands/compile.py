"""`ironworks compile`: every step from the file to machine code, with its seconds."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING

from explorer.cli.arguments import Parser, model_flags, parse_flags, stage, threads
from explorer.cli.compile_model import compile_model, load_model, options, sizes
from explorer.cli.terminal import print_answer
from explorer.ir.stage import Stage
from explorer.plain_text import binding, counted, duration, percent, size, table
from explorer.process.counters import Counts, counters
from explorer.views.answer import Answer

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.passes.snapshots import StepTime


STAGES = ", ".join(each.name.lower() for each in Stage)


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of the pipeline.

    `checked` is None without a check, True for equal values, else what is wrong. `cached`: the
    step was read from the cache. Its `seconds` are then those of the first compilation and are not
    part of the total.
    """

    name: str
    stage: str
    seconds: float
    checked: None | bool | str = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Operators:
    """Source operators, by whether they are compiled or left to a library."""

    total: int
    compiled: int
    library: int


@dataclass(frozen=True, slots=True)
class Kernels:
    """Different kernels, the origin of their code, and the number of calls."""

    total: int
    compiled_now: int
    from_cache: int
    calls: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Bytes of all intermediates, as planned and with one buffer each."""

    planned_bytes: int
    naive_bytes: int


@dataclass(frozen=True, slots=True)
class ThreadBlocks:
    """Kernel calls of a GPU, printed or refused with a reason, and predicted resources.

    `registers` is the most that a thread takes and `spilling` the number of calls that spill; both
    are None without an assembler, for the reason in `unassembled`. `simulated` is None without a
    check, True if the simulated blocks give the program's values, else the difference.
    """

    printed: int
    refused: Mapping[str, str]
    registers: int | None
    spilling: int | None
    unassembled: str
    simulated: None | bool | str


@dataclass(frozen=True, slots=True)
class Compiled:
    """The object that `compile --json` prints.

    `seconds` is the total: reading, loading the compiler's own code (`load_seconds`), the steps,
    and the time between them. The last six are the defaults if the compilation stopped earlier.
    """

    model: str
    stage: str
    target: str
    sizes: Mapping[str, int]
    steps: tuple[StepRow, ...]
    operators: Operators
    kernels: Kernels
    seconds: float
    load_seconds: float
    memory: Arena | None = None
    bricks: int | None = None
    planned_us: float | None = None
    units: int | None = None
    unit_word: str = "core"
    blocks: ThreadBlocks | None = None


def main(argv: Sequence[str]) -> int:
    """Compile a model and print a summary."""
    parser = Parser("compile", "Every step from the file to machine code, with its seconds.")
    model_flags(parser)
    add = parser.add_argument
    add("--until", type=stage, default="EMITTED", metavar="STAGE", help=f"stop there: {STAGES}")
    add(
        "--bind",
        action="append",
        default=[],
        metavar="batch=1,seq=128",
        help="values of symbolic dims, for the schedule and the memory plan",
    )
    add("--threads", type=threads, metavar="N", help="cores to run on (default: all)")
    add("--check", action="store_true", help="run every step's program, and compare the values")
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Compile a model and return its summary; no if a step changed the values."""
    chosen = options(flags)
    begin = perf_counter()
    import_module("explorer.compiler.pipeline")  # now, so that no step includes its time
    loading = perf_counter() - begin
    model = load_model(flags)
    read = StepRow("read the model", "imported", perf_counter() - begin - loading)
    bound = sizes(model, flags)
    with counters.delta() as did:
        c = compile_model(model, flags, chosen, flags.until, flags.check)
    result = _summarise(c, bound, read, did.counts, begin, loading)
    if c.blocks and c.takes_cuda:
        result = replace(result, blocks=_blocks(c, flags.check))
    outcomes = [step.checked for step in result.steps]
    outcomes += [result.blocks.simulated] if result.blocks is not None else []
    return Answer(result, _text(result), yes=not any(isinstance(each, str) for each in outcomes))


def _summarise(
    c: Compilation,
    bound: Mapping[str, int],
    read: StepRow,
    did: Counts,
    begin: float,
    loading: float,
) -> Compiled:
    result = Compiled(
        model=c.model.name,
        stage=c.stage.name.lower(),
        target=c.device.name,
        sizes=bound,
        steps=(read, *map(_step, c.steps)),
        operators=_operators(c),
        kernels=_kernels(c, did),
        seconds=perf_counter() - begin,
        load_seconds=loading,
    )
    if c.stage < Stage.EMITTED:
        return result
    memory, wall = c.memory(bound), c.planned_wall(bound)
    return replace(
        result,
        seconds=perf_counter() - begin,
        memory=Arena(memory.planned_bytes, memory.naive_bytes),
        bricks=len(wall.bricks),
        planned_us=wall.total_us,
        units=wall.units,
        unit_word=c.device.unit_word,
    )


def _blocks(c: Compilation, check: bool) -> ThreadBlocks:
    printed = [k for k in c.blocks if k.code is not None]
    why = next((k.unassembled for k in printed if k.unassembled), "")
    assembled = [] if why else [k.assembled for k in printed]
    return ThreadBlocks(
        len(printed),
        {k.name: k.refused for k in c.blocks if k.code is None},
        max((a.registers for a in assembled), default=None),
        None if why else sum(a.spilled_bytes > 0 for a in assembled),
        why,
        _check_by_simulation(c) if check else None,
    )


def _check_by_simulation(c: Compilation) -> bool | str:
    """Return True if the simulated blocks give the program's values, else the difference."""
    from explorer.ops.interpreter.evaluate import evaluate
    from explorer.passes.validate import difference

    inputs = c.random_inputs()
    return difference(evaluate(c.model.program, inputs), c.simulate(inputs)) or True


def _step(s: StepTime) -> StepRow:
    return StepRow(s.name, s.stage.name.lower(), s.seconds, s.checked, s.cached)


def _operators(c: Compilation) -> Operators:
    total = len(c.model.program.sources)
    library = len({name for b in c.program.library_calls for name in b.origin})
    return Operators(total, total - library, library)


def _kernels(c: Compilation, did: Counts) -> Kernels:
    total = len({kernel.code.key for kernel in c.kernels})
    now = min(total, did.kernel_compiles)
    return Kernels(total, now, total - now, len(c.program.kernel_calls))


def _text(result: Compiled) -> str:
    head = f"{result.model} on {result.target}, {result.stage}{binding(result.sizes)}"
    return "\n".join((head, "", _steps(result), "", *_totals(result)))


def _steps(result: Compiled) -> str:
    """Return the table of steps, whose rows add up to the total seconds.

    A cached step took its seconds in an earlier compilation, so its row is left out of the sum.
    """
    spent = result.load_seconds + sum(step.seconds for step in result.steps if not step.cached)
    first = StepRow("load the compiler", "", result.load_seconds)
    steps = (first, *result.steps, StepRow("what lies between", "", result.seconds - spent))
    rows = [
        (
            s.name,
            s.stage,
            "cached" if s.cached else f"{s.seconds:.3f}",
            _first_seconds(s),
            _badge(s.checked),
        )
        for s in steps
    ]
    head, shown = ("step", "stage", ">seconds", ">at first", "checked"), [0, 1, 2]
    shown += [3] if any(step.cached for step in steps) else []
    shown += [4] if any(step.checked is not None for step in steps) else []
    return table([head[n] for n in shown], [[row[n] for n in shown] for row in rows])


def _first_seconds(s: StepRow) -> str:
    return f"{s.seconds:.3f}" if s.cached else ""


def _badge(checked: None | bool | str) -> str:
    from explorer.passes.unchecked import Unchecked

    if isinstance(checked, Unchecked):
        return str(checked)
    if isinstance(checked, str):
        return f"WRONG: {checked}"
    return "same values" if checked else ""


def _totals(result: Compiled) -> Iterator[str]:
    operators, kernels = result.operators, result.kernels
    yield (
        f"  {counted(operators.total, 'operator')}: {operators.compiled:,} compiled, "
        f"{operators.library:,} left to a library"
    )
    if kernels.total:
        yield (
            f"  {counted(kernels.calls, 'kernel call')} of {counted(kernels.total, 'kernel')}: "
            f"{kernels.compiled_now:,} compiled now, {kernels.from_cache:,} from the cache"
        )
    elif result.blocks is None:
        yield f"  {counted(kernels.calls, 'kernel call')}, no machine code"
    if result.blocks is not None:
        yield from _block_lines(result.blocks, result.target)
    if result.memory is not None:
        planned, naive = result.memory.planned_bytes, result.memory.naive_bytes
        share = f", {percent(planned / naive)} of it" if naive else ""
        yield f"  {size(planned)} of memory; one buffer each would take {size(naive)}{share}"
    if result.bricks is not None and result.units is not None and result.planned_us is not None:
        tasks, units = counted(result.bricks, "task"), counted(result.units, result.unit_word)
        yield f"  {tasks} on {units}: {duration(result.planned_us)} predicted"
    yield f"  {result.seconds:.3f} s in all"


def _block_lines(b: ThreadBlocks, target: str) -> Iterator[str]:
    total = counted(b.printed + len(b.refused), "kernel call")
    most = "" if b.registers is None else f", {b.registers} registers a thread at most"
    spilling = "" if b.spilling is None else f", {b.spilling:,} spill"
    summary = f"{b.printed:,} printed as thread blocks of {target}, {len(b.refused):,} refused"
    yield f"  {total}: {summary}{most}{spilling}: predictions"
    yield from (f"  {name}: {why}" for name, why in b.refused.items())
    if b.unassembled:
        yield f"  {b.unassembled}"
    if b.simulated is not None:
        yield f"  run in the simulator of a GPU: {_badge(b.simulated)}"
