"""`ironworks compile`: every step from the file to machine code, with its seconds."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, parsed, stage, threads
from explorer.cli.compiled import compiled, loaded, options, sizes
from explorer.counters import Counts, counters
from explorer.ir.stage import Stage
from explorer.plain_text import binding, counted, duration, percent, size, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.passes.pipeline.pipeline import StepTime


STAGES = ", ".join(each.name.lower() for each in Stage)


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step; `checked` is None where nobody looked, True, or what is wrong. `kept`: it was
    remembered, and `seconds` is what it took at first, which is no part of those in all.
    """

    name: str
    stage: str
    seconds: float
    checked: None | bool | str = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Operators:
    """Source operators, by what became of them."""

    total: int
    compiled: int
    library: int


@dataclass(frozen=True, slots=True)
class Kernels:
    """Different kernels, where their code is from, and how often they are called."""

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
class Blocks:
    """Kernel calls that have a source for a GPU, those that have none, with the reason, and what an
    assembler predicts: the most registers of a thread, and how many calls spill; null without one,
    for the reason in `unassembled`. `simulated`: whether the blocks, run in a stand-in, make what
    the program is, or what is wrong; null where nobody looked.
    """

    printed: int
    refused: Mapping[str, str]
    registers: int | None
    spilling: int | None
    unassembled: str
    simulated: None | bool | str


@dataclass(frozen=True, slots=True)
class Compiled:
    """What `compile --json` prints. `seconds` is all of it: reading, loading the compiler's own
    code (`load_seconds`), the steps and what lies between them. The last five are null where it was
    not compiled that far.
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
    blocks: Blocks | None = None


def main(given: Sequence[str]) -> int:
    """Compile a model and say what became of it."""
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
    flags = parsed(parser, given)
    return tell(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """What was compiled, in how long, and how it will run; no where a step changed the values."""
    chosen = options(flags)
    begin = perf_counter()
    import_module("explorer.compiler")  # now, so that no step answers for it
    loading = perf_counter() - begin
    model = loaded(flags)
    read = StepRow("read the model", "imported", perf_counter() - begin - loading)
    bound = sizes(model, flags)
    with counters.delta() as did:
        c = compiled(model, flags, chosen, flags.until, flags.check)
    found = _compiled(c, bound, read, did.counts, begin, loading)
    if c.blocks:
        found = replace(found, blocks=_blocks(c, flags.check))
    said = [step.checked for step in found.steps]
    said += [found.blocks.simulated] if found.blocks is not None else []
    return Answer(found, _text(found), yes=not any(isinstance(each, str) for each in said))


def _compiled(
    c: Compilation,
    bound: Mapping[str, int],
    read: StepRow,
    did: Counts,
    begin: float,
    loading: float,
) -> Compiled:
    found = Compiled(
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
        return found
    memory, wall = c.memory(bound), c.planned_wall(bound)
    return replace(
        found,
        seconds=perf_counter() - begin,
        memory=Arena(memory.planned_bytes, memory.naive_bytes),
        bricks=len(wall.bricks),
        planned_us=wall.total_us,
        units=wall.units,
        unit_word=c.device.unit_word,
    )


def _blocks(c: Compilation, check: bool) -> Blocks:
    printed = [k for k in c.blocks if k.code is not None]
    why = next((k.unassembled for k in printed if k.unassembled), "")
    made = [] if why else [k.assembled for k in printed]
    return Blocks(
        len(printed),
        {k.name: k.refused for k in c.blocks if k.code is None},
        max((a.registers for a in made), default=None),
        None if why else sum(a.spilled_bytes > 0 for a in made),
        why,
        _simulated(c) if check else None,
    )


def _simulated(c: Compilation) -> bool | str:
    """Whether the blocks make what the program is, or what is wrong."""
    from explorer.ops.reference.evaluate import evaluate
    from explorer.passes.pipeline.validate import difference

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


def _text(found: Compiled) -> str:
    head = f"{found.model} on {found.target}, {found.stage}{binding(found.sizes)}"
    return "\n".join((head, "", _steps(found), "", *_sums(found)))


def _steps(found: Compiled) -> str:
    """Rows that add up to the seconds in all; what was kept took its seconds at another time."""
    spent = found.load_seconds + sum(step.seconds for step in found.steps if not step.kept)
    first = StepRow("load the compiler", "", found.load_seconds)
    steps = (first, *found.steps, StepRow("what lies between", "", found.seconds - spent))
    rows = [
        (s.name, s.stage, "kept" if s.kept else f"{s.seconds:.3f}", _then(s), _badge(s.checked))
        for s in steps
    ]
    head, shown = ("step", "stage", ">seconds", ">at first", "checked"), [0, 1, 2]
    shown += [3] if any(step.kept for step in steps) else []
    shown += [4] if any(step.checked is not None for step in steps) else []
    return table([head[n] for n in shown], [[row[n] for n in shown] for row in rows])


def _then(s: StepRow) -> str:
    return f"{s.seconds:.3f}" if s.kept else ""


def _badge(checked: None | bool | str) -> str:
    if isinstance(checked, str):
        return f"WRONG: {checked}"
    return "same values" if checked else ""


def _sums(found: Compiled) -> Iterator[str]:
    operators, kernels = found.operators, found.kernels
    yield (
        f"  {counted(operators.total, 'operator')}: {operators.compiled:,} compiled, "
        f"{operators.library:,} left to a library"
    )
    if kernels.total:
        yield (
            f"  {counted(kernels.calls, 'kernel call')} of {counted(kernels.total, 'kernel')}: "
            f"{kernels.compiled_now:,} compiled now, {kernels.from_cache:,} from the cache"
        )
    elif found.blocks is None:
        yield f"  {counted(kernels.calls, 'kernel call')}, no code"
    if found.blocks is not None:
        yield from _of_blocks(found.blocks, found.target)
    if found.memory is not None:
        planned, naive = found.memory.planned_bytes, found.memory.naive_bytes
        share = f", {percent(planned / naive)} of it" if naive else ""
        yield f"  {size(planned)} of memory; one buffer each would take {size(naive)}{share}"
    if found.bricks is not None and found.units is not None and found.planned_us is not None:
        tasks, units = counted(found.bricks, "task"), counted(found.units, found.unit_word)
        yield f"  {tasks} on {units}: {duration(found.planned_us)} predicted"
    yield f"  {found.seconds:.3f} s in all"


def _of_blocks(b: Blocks, target: str) -> Iterator[str]:
    total = counted(b.printed + len(b.refused), "kernel call")
    most = "" if b.registers is None else f", {b.registers} registers a thread at most"
    spilling = "" if b.spilling is None else f", {b.spilling:,} spill"
    told = f"{b.printed:,} printed as thread blocks of {target}, {len(b.refused):,} refused"
    yield f"  {total}: {told}{most}{spilling}: predictions"
    yield from (f"  {name}: {why}" for name, why in b.refused.items())
    if b.unassembled:
        yield f"  {b.unassembled}"
    if b.simulated is not None:
        yield f"  run in a stand-in for a GPU: {_badge(b.simulated)}"
