"""Variants of a program for a page: the same model with one decision changed.

Each is compiled for browsers, with the options of one system replaced. A variant that turns
out to be the same program is left out, and so is one that cannot run in a page; a sentence says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.devices.hardware import Options as HardwareOptions
from explorer.devices.model import Device
from explorer.errors import BadOption, IronworksError, did_you_mean
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.portable.program import PortableProgram, portable
from explorer.portable.webgpu import WebGpuProgram, webgpu_program
from explorer.roller.cpu_candidates import cpu_candidates
from explorer.roller.policy import SHOWN_CANDIDATES
from explorer.runtime.device_program.instructions import BARRIER, END, RUN, WAIT

BROWSERS = ("wasm-simd128", "wasm-relaxed")  # data sheets of WebAssembly; the first is the default
WEBGPU = "webgpu"  # the data sheet of a GPU behind a browser
OWN = "as compiled"
REWRITES = (
    "eliminate common subexpressions",
    "fold batch norm",
    "fold layout copies",
    "concatenate in place",
)
STRAIGHT = {RUN, WAIT, BARRIER, END}  # rows of a program without control flow
THREADS = "{} threads share the memory, which browsers allow where a server isolates the page."
Change = Callable[[Options], Mapping[str, Any]]


def second_best(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int = SHOWN_CANDIDATES
) -> Iterator[Candidate[Tiling]]:
    """Yield Roller's tilings from the second one; a kernel with only one legal tiling keeps it."""
    ranked = list(cpu_candidates(kernel, device, env, sizes, max(2, top_k)))
    legal = [c for c in ranked if not c.refused]
    yield from legal[1:] or legal
    yield from (c for c in ranked if c.refused)


@dataclass(frozen=True, slots=True)
class Knob:
    """A decision that a variant changes: its title in the page, and what differs, in a sentence.

    `device`: the variant is compiled for another data sheet. `binds_sizes`: its model has numbers
    in place of symbols. `is_twin`: it is the same program on purpose. `threads`: of its plan.
    """

    title: str
    sentence: str
    change: Change = lambda o: {}
    device: str = ""
    binds_sizes: bool = False
    is_twin: bool = False
    threads: int = 1


KNOBS: Mapping[str, Knob] = {
    "fusion": Knob(
        "fusion off",
        "Welder fuses no kernels: every operator writes its result to memory.",
        lambda o: {"welder": replace(o.welder, enabled=False)},
    ),
    "tiles": Knob(
        "second-best tiles",
        "Every kernel has the tiling that Roller ranks second.",
        lambda o: {"roller": replace(o.roller, policy=second_best, pinned=())},
    ),
    "policy": Knob(
        "tiles without construction",
        "Roller takes the best of plain cuts and constructs no tiles.",
        lambda o: {"roller": replace(o.roller, policy="candidates", pinned=())},
    ),
    "layout": Knob(
        "layout of the file",
        "Images keep the layout of the model's file; channels are not put last.",
        lambda o: {"steps": replace(o.steps, off=(*o.steps.off, "put channels last"))},
    ),
    "convolution": Knob(
        "direct convolution",
        "Every convolution is computed directly, without Winograd's algorithm.",
        lambda o: {"convolution": replace(o.convolution, algorithm="direct")},
    ),
    "winograd": Knob(
        "Winograd convolution",
        "Every 3 x 3 convolution is computed by Winograd's algorithm in tiles of 2 x 2.",
        lambda o: {"convolution": replace(o.convolution, algorithm="f2")},
    ),
    "softmax": Knob(
        "softmax in three passes",
        "Softmax reads its rows three times instead of once.",
        lambda o: {"softmax": replace(o.softmax, enabled=False)},
    ),
    "schedule": Knob(
        "operator by operator",
        "Rammer finishes each operator before the next one begins.",
        lambda o: {"rammer": replace(o.rammer, policy="op-by-op")},
    ),
    "memory": Knob(
        "memory not shared",
        "Every value has memory of its own, so more of it passes through the caches.",
        lambda o: {"memory": replace(o.memory, share=False)},
    ),
    "control": Knob(
        "loops not unrolled",
        "Grinder leaves loops and branches as they are in the file.",
        lambda o: {"grinder": replace(o.grinder, unroll=1, inline_branches=False)},
    ),
    "unrolled": Knob(
        "loops unrolled",
        "An innermost loop is unrolled by eight, with one scalar readback of its condition.",
        lambda o: {"grinder": replace(o.grinder, schedule="unrolled", unroll=8)},
    ),
    "rewrites": Knob(
        "graph not rewritten",
        "Nothing is simplified before fusion: batch norms, copies and equal values stay.",
        lambda o: {"steps": replace(o.steps, off=(*o.steps.off, *REWRITES))},
    ),
    "recompute": Knob(
        "values recomputed",
        "The backward pass recomputes values until they need 60 % of the memory.",
        lambda o: {"rematerialisation": replace(o.rematerialisation, share=0.6)},
    ),
    "sizes": Knob(
        "sizes known to the compiler",
        "Every size is a number in the code, which then serves no other size.",
        binds_sizes=True,
    ),
    "relaxed": Knob(
        "relaxed SIMD",
        "A product and a sum are one instruction, f32x4.relaxed_madd, where the processor has it.",
        device="wasm-relaxed",
    ),
    "threads": Knob("2 threads", THREADS.format("Two"), threads=2),
    "threads-4": Knob("4 threads", THREADS.format("Four"), threads=4),
    "gpu": Knob(
        "on this GPU",
        "Every kernel is a compute shader for WebGPU; its plan is for the data sheet of that name.",
        device=WEBGPU,
    ),
    "again": Knob(
        "the same program again",
        "Nothing differs: an honest clock finds no difference, too.",
        is_twin=True,
    ),
}
DEFAULT = tuple(name for name, knob in KNOBS.items() if not knob.is_twin)


@dataclass(frozen=True, slots=True)
class Variant:
    """A program for browsers; `sentence` says in what it differs from the first one."""

    name: str
    sentence: str
    compilation: Compilation
    program: PortableProgram | WebGpuProgram


def check_knobs(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of variants without repetitions; raises BadOption for an unknown one."""
    for name in names:
        if name not in KNOBS:
            raise BadOption(
                f"there is no variant {name!r}{did_you_mean(name, tuple(KNOBS))}",
                where="--variants",
                expected=", ".join(KNOBS),
                actual=name,
            )
    return tuple(dict.fromkeys(names))


def browser_options(options: Options) -> Options:
    """Return options for one thread of a browser, without those that belong to another device.

    These are its changed hardware, measured tiles and schedules, and tilings by hand.
    """
    return replace(
        options,
        rammer=replace(options.rammer, threads=1, profile=None),
        roller=replace(options.roller, pinned=(), measure=0),
        grinder=replace(options.grinder, measure=0),
        hardware=HardwareOptions(),
    )


def compile_for_browser(c: Compilation, sizes: Sizes) -> Variant:
    """Compile the model of a compilation with its options for one thread of a browser.

    Raises:
        IronworksError: It cannot be compiled for a browser, or needs Python while it runs.
    """
    from explorer.compiler.pipeline import compile as compile_model

    device = c.device.name if c.device.name in BROWSERS else BROWSERS[0]
    options = browser_options(c.options)
    compiled = compile_model(c.model, device, options=options)
    return Variant(OWN, "", compiled, portable(compiled, sizes))


def variants(
    first: Variant, sizes: Sizes, names: Sequence[str], say: Callable[[str], None]
) -> Iterator[Variant | str]:
    """Yield the variants of a program, and a sentence for each that is left out.

    `say` is called with the title of each before it is compiled.
    """
    programs = {fingerprint(first.program): first.name}
    for name in check_knobs(names):
        knob = KNOBS[name]
        say(knob.title)
        try:
            compiled = _changed(first.compilation, knob, sizes)
            program = _program(compiled, {} if knob.binds_sizes else sizes, knob.threads)
        except IronworksError as problem:
            yield f"{knob.title}: {problem.sentence}."
            continue
        mark = fingerprint(program)
        if mark in programs and not knob.is_twin:
            yield f"{knob.title}: the same program as {programs[mark]!r}."
            continue
        programs[mark] = knob.title
        yield Variant(knob.title, knob.sentence, compiled, program)


def _changed(c: Compilation, knob: Knob, sizes: Sizes) -> Compilation:
    """Compile a program with one decision changed."""
    from explorer.compiler.pipeline import compile as compile_model
    from explorer.transforms.simplify.substitution import bind_symbols

    if knob.threads > 1:
        return c.with_options(rammer=replace(c.options.rammer, threads=knob.threads))
    if not knob.device and not knob.binds_sizes:
        return c.with_options(**knob.change(c.options))
    model = c.model
    if knob.binds_sizes:
        model = replace(model, program=bind_symbols(model.program, dict(sizes)), head=b"")
    return compile_model(model, knob.device or c.device, options=c.options)


def _program(c: Compilation, sizes: Sizes, threads: int) -> PortableProgram | WebGpuProgram:
    """Return a compilation's program; raises IronworksError if it runs in no browser."""
    if c.device.target == WEBGPU:
        return webgpu_program(c, sizes)
    return portable(c, sizes, threads)


def fingerprint(program: PortableProgram | WebGpuProgram) -> tuple[Any, ...]:
    """Return a value that is equal for programs that do the same: kernels, places and order.

    In a program without control flow the borders of launches do not count.
    """
    if isinstance(program, WebGpuProgram):
        return (program.dispatches, program.fixed, hash(program.weights))
    launches = program.launches
    others = tuple(launch.other_rows for launch in launches)
    ops = {row[0] for launch in launches for row in launch.rows}
    runs = [
        (program.kernels[call.kernel].name, row[2], row[3], _block(program, call.arguments))
        for launch in launches
        for row in launch.rows
        if row[0] == RUN
        for call in (launch.calls[row[1]],)
    ]
    rows = () if ops <= STRAIGHT else tuple((lc.rows, lc.slots, lc.pointers) for lc in launches)
    return (tuple(runs), rows, others, program.copies, hash(program.weights))


def _block(program: PortableProgram, first: int) -> tuple[Any, ...]:
    """Return the argument block that begins at a word."""
    begins = {call.arguments for launch in program.launches for call in launch.calls}
    end = min((b for b in begins if b > first), default=len(program.arguments))
    return program.arguments[first:end]
