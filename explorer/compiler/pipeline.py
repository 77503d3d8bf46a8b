"""The default pipeline as one literal list of named steps, and `compile`, which runs it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

import explorer.gradient_programs  # noqa: F401  it tells the interpreter what a gradient means
from explorer.compiler.compilation import Compilation
from explorer.compiler.driver import (
    CompileRequest,
    StepError,
    from_cache,
    run_all_steps,
    run_until_error,
)
from explorer.compiler.options import Options
from explorer.devices.catalogue import HERE, device_names
from explorer.devices.cpus import CPUS, like
from explorer.devices.hardware import changed as changed_hardware
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.errors import BadOption, Cancelled, NoSuchDevice, did_you_mean
from explorer.extend.passes import insert_passes
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.grinder import Grind, IfConversion
from explorer.grinder.inline import inline_calls
from explorer.grinder.update_in_place import UpdateInPlace
from explorer.ir.dims import ShapeEnv
from explorer.ir.stage import Stage
from explorer.measure.this_cpu import this_cpu
from explorer.memory.plan import PlanMemory
from explorer.passes.arrangement import arrange_steps
from explorer.passes.snapshots import Step
from explorer.process.cancellation import current_cancellation, current_listener
from explorer.process.garbage import rare_collections
from explorer.rammer import Ram
from explorer.relax import Legalize, deduce
from explorer.relax.legalization import name_reshapes
from explorer.relax.lift_workspaces import LiftWorkspaces
from explorer.relax.reductions import ShareLongReductions, SplitReduction
from explorer.roller import Price, Roll
from explorer.roller.transform import LegalTiles
from explorer.runtime.planning.select_control_schedule import SelectControlSchedule
from explorer.stored.program_key import WhyNot, why_not
from explorer.stored.programs import Tiers, find_tiers
from explorer.targets.cpu import Cpu
from explorer.transforms.autodiff import Differentiate
from explorer.transforms.copies.concat_in_place import write_concats_in_place
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.counted_loops import count_loops
from explorer.transforms.layout import ChooseLayout
from explorer.transforms.shared_products import HoistRowProducts, ShareProducts
from explorer.transforms.simplify.block_weights import keep_block_weights
from explorer.transforms.simplify.fold_batch_norm import fold_batch_norm
from explorer.transforms.simplify.fold_constants import fold_constants
from explorer.transforms.simplify.narrow_products import NarrowProducts, multiply_bytes
from explorer.transforms.simplify.quantized_weights import keep_integer_weights
from explorer.transforms.simplify.redundancy import remove_dead_code, share_common_subexpressions
from explorer.transforms.simplify.sink_squeezes import sink_squeezes
from explorer.transforms.softmax import Price as PriceOf
from explorer.transforms.softmax import PriceInBlocks
from explorer.transforms.split_loops import SplitLoops
from explorer.transforms.winograd import Winograd
from explorer.welder import JoinResults, Weld

Progress = Callable[[str, int, int], None]


def pipeline(options: Options, device: Device, donated: tuple[str, ...] = ()) -> tuple[Step, ...]:
    """Return every step in order, under the name that the pictures show.

    A CPU works on the memory of `donated` inputs.

    Passes of the user stand after the steps that they name; `options.steps` then removes and moves
    steps.
    """
    target = target_of(device)
    donated = donated if isinstance(target, Cpu) else ()
    lift = _lifting(device) if options.relax.lift else ()
    filtering = Winograd(device, Price(device, 1), options.convolution)
    price = PriceInBlocks(Price(device), options.softmax)
    measured_tiles = _measuring(options, device)
    fusion = replace(options.welder, enabled=options.welder.enabled and not options.relax.fuse)
    legalise = Legalize(options.recurrent.unroll)
    steps = (
        Step("infer shapes", Stage.TYPED, deduce),
        Step("inline calls", Stage.TYPED, inline_calls),
        Step("keep weights in blocks", Stage.TYPED, keep_block_weights),
        Step("fold constants", Stage.TYPED, fold_constants),
        Step("sink squeezes", Stage.TYPED, sink_squeezes),
        Step("multiply bytes", Stage.TYPED, multiply_bytes),
        Step("find trip counts", Stage.TYPED, count_loops),
        Step("merge matrix products", Stage.TYPED, ShareProducts(device, options.recurrent)),
        Step("split multi-layer recurrences", Stage.TYPED, SplitLoops(device, options.recurrent)),
        Step("hoist input projections", Stage.TYPED, HoistRowProducts(device, options.recurrent)),
        Step("differentiate", Stage.DIFFERENTIATED, Differentiate(legalise)),
        *_in_place(options, device),
        *_dispatch(options),
        Step("legalise to kernels", Stage.LEGALIZED, legalise),
        Step("remove dead code", Stage.LEGALIZED, remove_dead_code),
        Step("eliminate common subexpressions", Stage.LEGALIZED, share_common_subexpressions),
        Step("fold batch norm", Stage.LEGALIZED, fold_batch_norm),
        Step("keep weights quantized", Stage.LEGALIZED, keep_integer_weights),
        *_narrow(device),
        Step("fold layout copies", Stage.LEGALIZED, fold_copies),
        Step("put channels last", Stage.LEGALIZED, ChooseLayout(target.packs_weights)),
        Step("fold channels-last copies", Stage.LEGALIZED, fold_copies),
        *_copying(device),
        Step("concatenate in place", Stage.LEGALIZED, write_concats_in_place),
        Step("update in place", Stage.LEGALIZED, UpdateInPlace(donated)),
        Step("clean up", Stage.LEGALIZED, remove_dead_code),
        Step("split and share reductions", Stage.LEGALIZED, _sharing(device)),
        *_fuse(options),
        *lift,
        *_if_conversion(options, device, price),
        Step("map control flow (Grinder)", Stage.TASKED, Grind(options.grinder)),
        Step("fuse (Welder)", Stage.WELDED, Weld(device, price, fusion)),
        *(
            (Step("merge sibling kernels", Stage.WELDED, JoinResults(device)),)
            if options.welder.enabled
            else ()
        ),
        Step("online softmax", Stage.WELDED, options.softmax),
        Step("select convolution algorithms", Stage.WELDED, filtering),
        Step("tile (Roller)", Stage.ROLLED, Roll(device, options.roller)),
        *measured_tiles,
        *_recomputing(options),
        Step("schedule (Rammer)", Stage.RAMMED, Ram(device, options.rammer)),
        Step(
            "select control-flow schedules",
            Stage.RAMMED,
            SelectControlSchedule(device, options.grinder),
        ),
        *_measuring_ways(options, device),
        Step("plan memory", Stage.PLANNED, PlanMemory(options.memory)),
    )
    return arrange_steps(insert_passes(steps, options.passes, LegalTiles(device)), options.steps)


def _dispatch(options: Options) -> tuple[Step, ...]:
    """Let the libraries that `relax.dispatch` names take operators."""
    if not options.relax.dispatch:
        return ()
    from explorer.relax.dispatch import Dispatch, patterns  # seldom asked for

    libraries = Dispatch(patterns(options.relax.dispatch))
    return (Step("dispatch to libraries", Stage.DIFFERENTIATED, libraries),)


def _fuse(options: Options) -> tuple[Step, ...]:
    """Fuse by pattern kind if `relax.fuse` asks for the baseline."""
    if not options.relax.fuse:
        return ()
    from explorer.relax import FuseOps  # seldom asked for

    return (
        Step("fuse operators", Stage.LEGALIZED, FuseOps()),
        Step("name reshapes", Stage.LEGALIZED, name_reshapes),
    )


def _copying(device: Device) -> tuple[Step, ...]:
    """Copy symbolic steps out of kernels, because thread blocks take their steps from registers."""
    if not target_of(device).copies_symbolic_steps:
        return ()
    from explorer.transforms.copy_symbolic_steps import copy_symbolic_steps

    return (Step("copy symbolic steps", Stage.LEGALIZED, copy_symbolic_steps),)


def _narrow(device: Device) -> tuple[Step, ...]:
    """Multiply 16-bit floats on matrix units if the device has them."""
    if not device.has_matrix_units:
        return ()
    return (Step("use 16-bit matrix units", Stage.LEGALIZED, NarrowProducts(device)),)


def _measuring_ways(options: Options, device: Device) -> tuple[Step, ...]:
    """Time the best schedules of loops and branches if `grinder.measure` asks for it."""
    if not options.grinder.measure:
        return ()
    from explorer.measure.control_schedules import MeasureControlSchedules

    timed = MeasureControlSchedules(device, options.grinder.measure)
    return (Step("measure control-flow schedules", Stage.RAMMED, timed),)


def _if_conversion(options: Options, device: Device, price: PriceOf) -> tuple[Step, ...]:
    """Execute both arms of small branches, unless another schedule is requested."""
    grinder = options.grinder
    if grinder.schedule != "auto" or not grinder.inline_branches:
        return ()
    return (Step("if-convert branches", Stage.TASKED, IfConversion(device, price)),)


def _measuring(options: Options, device: Device) -> tuple[Step, ...]:
    """Time the best tilings of each kernel if `roller.measure` asks for it."""
    if not options.roller.measure:
        return ()
    from explorer.measure.measured_tiles import MeasureTiles

    return (Step("measure tiles", Stage.ROLLED, MeasureTiles(device, options.roller.measure)),)


def _in_place(options: Options, device: Device) -> tuple[Step, ...]:
    """Stack rows over the rows that a loop reads if memory is to be saved.

    Thread blocks have no such stores, so this is for CPUs.
    """
    if not (options.rematerialisation.is_set and target_of(device).stacks_rows_in_place):
        return ()
    from explorer.transforms.autodiff.stacked_in_place import stack_in_place  # seldom asked for

    return (Step("stack rows in place", Stage.DIFFERENTIATED, stack_in_place),)


def _recomputing(options: Options) -> tuple[Step, ...]:
    """Recompute values if rematerialisation is requested."""
    if not options.rematerialisation.is_set:
        return ()
    from explorer.transforms.autodiff.rematerialisation import Rematerialise  # seldom asked for

    rematerialise = Rematerialise(options.rematerialisation)
    return (Step("rematerialise", Stage.ROLLED, rematerialise),)


def _sharing(device: Device) -> ShareLongReductions:
    """Split long reductions into parts; for thread blocks their price decides."""
    if not target_of(device).weighs_splits:
        return ShareLongReductions(device.units)
    return ShareLongReductions(device.units, Price(device), device.barrier_us)


def _lifting(device: Device) -> tuple[Step, ...]:
    """Split reductions whose results have fewer tiles than the device has units."""
    private = [m.capacity_bytes or 0 for m in device.levels if not m.shared]
    lift = Step("lift workspaces", Stage.LEGALIZED, LiftWorkspaces(max(private, default=0)))
    if device.units < 2:
        return (lift,)
    split = SplitReduction(device.units, tiles=device.units - 1)
    return (Step("split long sums", Stage.LEGALIZED, split), lift)


def compile(
    model: Any,
    target: str | PathLike[str] | Device = "cpu",
    options: Options | None = None,
    until: Stage | str = Stage.EMITTED,
    check: bool = False,
    *,
    donate: Collection[str] = (),
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Compilation:
    """Compile a model for a target, through the stage `until`.

    Args:
        model: A Model, or anything that `explorer.load` takes.
        target: "cpu" (this machine), a device, its name, or the path of its data sheet. Only this
            machine runs code; other devices show what would be done there.
        options: The options of each system, and the user's passes.
        until: The last stage, or its name.
        check: Validate every step on random inputs, interpret the generated tile programs on them,
            and let runs write over NaN.
        donate: Inputs whose arrays a run may write an output into, as JAX's `donate_argnums`.
        progress: Called as `progress(step, done, steps)` while steps run.
        cancelled: Called often; compiling ends with Cancelled once it returns True.

    Returns:
        The compilation.

    Raises:
        BadModelFile, UnsupportedOperator, TraceError: The model cannot be read.
        BadOption, BadPolicy, BadPass: An option, a policy or a pass of the user is wrong.
        NoSuchDevice, BadSheet: The target is unknown, or its data sheet is wrong.
        Cancelled: `cancelled()` returned True.
    """
    report, is_cancelled = progress or current_listener(), cancelled or current_cancellation()
    with rare_collections():  # loading a model imports sympy, and makes as many objects
        loaded = model if isinstance(model, Model) else load(model)
        chosen, device = (options or Options()).entered, device_of(target)
        donated = _donated(loaded, donate)
        return _compiled(loaded, device, chosen, until, check, report, is_cancelled, donated)


def _donated(model: Model, donate: Collection[str]) -> tuple[str, ...]:
    """Return the donated inputs' names, or raise BadOption for a name that is not an input."""
    inputs = tuple(model.inputs)
    names = (donate,) if isinstance(donate, str) else tuple(donate)
    for name in names:
        if name not in inputs:
            raise BadOption(
                f"{model.name} has no input {name!r} to donate",
                where=str(name),
                expected=", ".join(inputs),
            )
    return names


def _compiled(
    model: Model,
    device: Device,
    chosen: Options,
    until: Stage | str,
    check: bool,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    donated: tuple[str, ...] = (),
    looks: bool = True,
    keeps: bool = True,
) -> Compilation:
    """Compile with the passes that the options hold, and no others.

    `looks`: search the cache first. `keeps`: store the program. A compilation with other options
    that is derived from this one is not stored, because users turn knobs often. Nor is it searched
    for after the passes ran here: this process remembers more of them.
    """
    request = _request(model, device, chosen, until, check, donated)

    def recompile(
        changed: Options, until: Stage | str | None = None, env: ShapeEnv | None = None
    ) -> Compilation:
        last = request.last if until is None else until
        arguments = (check, current_listener(), current_cancellation(), donated)
        if env is not None:
            return _compiled(_within(model, env), device, changed, last, *arguments)
        return _compiled(model, device, changed, last, *arguments, stored is not None, False)

    key = request.program_key if looks else None
    stored = from_cache(request, key, recompile, progress, cancelled)
    return stored or run_all_steps(request, key if keeps else None, recompile, progress, cancelled)


def _within(model: Model, env: ShapeEnv | None) -> Model:
    """Return the model with other bounds and hints of its symbols, if they are given."""
    return model if env is None else replace(model, program=replace(model.program, env=env))


def compile_until_error(
    model: Any,
    target: str | PathLike[str] | Device = "cpu",
    options: Options | None = None,
    until: Stage | str = Stage.PLANNED,
    check: bool = False,
    *,
    donate: Collection[str] = (),
) -> tuple[Compilation, StepError] | None:
    """Compile as far as the step before the first error, and return that compilation and the error.

    Returns None if compiling succeeds. Arguments as for `compile`; no code is generated.
    """
    loaded = model if isinstance(model, Model) else load(model)
    chosen, donated = (options or Options()).entered, _donated(loaded, donate)
    device = device_of(target)
    last = min(stage_of(until), Stage.PLANNED)
    outcome = run_until_error(
        _request(loaded, device, chosen, last, check, donated), current_cancellation()
    )
    if outcome is None:
        return None
    request, problem = outcome

    def recompile(
        changed: Options, until: Stage | str | None = None, env: ShapeEnv | None = None
    ) -> Compilation:
        arguments = (
            until or request.last,
            check,
            current_listener(),
            current_cancellation(),
            donated,
            False,
            False,
        )
        return _compiled(_within(loaded, env), device, changed, *arguments)

    return run_all_steps(request, None, recompile, None, None), problem


def _request(
    model: Model,
    device: Device,
    chosen: Options,
    until: Stage | str = Stage.EMITTED,
    check: bool = False,
    donated: tuple[str, ...] = (),
) -> CompileRequest:
    """Return the request to compile a model, with the steps that its stage needs."""
    device = changed_hardware(device, chosen.hardware.changed)
    end = Stage.EMITTED if target_of(device).is_emitted else Stage.PLANNED
    last = min(stage_of(until), end)
    steps = tuple(s for s in pipeline(chosen, device, donated) if s.stage <= last)
    return CompileRequest(model, device, chosen, steps, last, last == end, check, donated)


def why_not_cached(
    model: Any,
    target: str | PathLike[str] | Device = "cpu",
    options: Options | None = None,
    *,
    donate: Collection[str] = (),
) -> WhyNot:
    """Return whether a later process would find this compilation on disk, and if not, why.

    Arguments as for `compile`.
    """
    loaded = model if isinstance(model, Model) else load(model)
    chosen = (options or Options()).entered
    request = _request(loaded, device_of(target), chosen, donated=_donated(loaded, donate))
    return why_not(loaded.name, request.program_key)


def cache_tiers(c: Compilation) -> Tiers:
    """Return the cache tiers that hold this compilation now, and the parts of its key."""
    key = _request(c.model, c.device, c.options, donated=c.donate).program_key
    kernels = (code.machine.key for code in c.codes.values())
    return find_tiers(key, why_not(c.model.name, key), kernels)


def stage_of(until: Stage | str) -> Stage:
    """Return the stage with that name; raise BadOption if there is none."""
    if isinstance(until, Stage):
        return until
    try:
        return Stage[until.upper()]
    except KeyError:
        names, near = ", ".join(Stage.__members__), did_you_mean(str(until), Stage.__members__)
        raise BadOption(
            f"no stage is named {until!r}{near}",
            where=until,
            expected=names,
        ) from None


def device_of(target: str | PathLike[str] | Device) -> Device:
    """Return a device by its name or the path of its data sheet.

    "cpu" and "this-cpu" are this machine; "cpu-avx2" and the like are this machine with other
    vectors.

    Raises:
        NoSuchDevice: No device has the name.
        BadSheet: The data sheet is wrong.
    """
    if isinstance(target, Device):
        return target
    if not isinstance(target, str | PathLike):
        raise NoSuchDevice(
            f"a target is a device or the name of one, not {type(target).__name__}",
            expected=", ".join(("this-cpu", *CPUS, *device_names())),
        )
    name = str(fspath(target))
    if name in CPUS:
        return like(this_cpu(), name)
    if name in HERE:
        return this_cpu()
    from explorer import extend  # plug-ins may bring devices; this machine is none of them

    return extend.device(name)


__all__ = [
    "Cancelled",
    "Compilation",
    "cache_tiers",
    "compile",
    "device_of",
    "pipeline",
    "stage_of",
    "why_not_cached",
]
