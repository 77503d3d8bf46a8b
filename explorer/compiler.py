"""The default pipeline, as one literal list of named steps; `compile` runs it until a stage."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

import explorer.gradient_programs  # noqa: F401  it tells the interpreter what a gradient means
from explorer import plugins
from explorer.autodiff import Differentiate
from explorer.autodiff.rematerialisation import Rematerialise, stack_in_place
from explorer.compilation import Compilation
from explorer.devices.catalogue import HERE, device_names
from explorer.devices.cpus import CPUS, like
from explorer.devices.hardware import changed as changed_hardware
from explorer.devices.model import Device
from explorer.errors import BadOption, Cancelled, NoSuchDevice, did_you_mean
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.grinder import Grind, IfConversion
from explorer.grinder.calls.inline import inline_calls
from explorer.grinder.update_in_place import update_in_place
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.stage import Stage
from explorer.making import Asked, Ended, ended, made, opened
from explorer.measure.measured_tiles import MeasureTiles
from explorer.measure.measured_ways import MeasureWays
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.ops.reference.cancellation import wanted_by
from explorer.options import Options
from explorer.passes.convolution.winograd import Winograd
from explorer.passes.copies.concat_in_place import write_concats_in_place
from explorer.passes.copies.copies import fold_copies
from explorer.passes.layout.layout import ChooseLayout
from explorer.passes.layout.symbolic_steps import copy_symbolic_steps
from explorer.passes.pipeline.own_passes import placed
from explorer.passes.pipeline.pipeline import Step
from explorer.passes.pipeline.progress import listener
from explorer.passes.recurrent.counted_loops import count_loops
from explorer.passes.recurrent.loop_parts import SplitLoops
from explorer.passes.recurrent.row_products import HoistRowProducts
from explorer.passes.recurrent.shared_products import ShareProducts
from explorer.passes.simplify.byte_products import multiply_bytes
from explorer.passes.simplify.common_subexpressions import share_common_subexpressions
from explorer.passes.simplify.dead_code import remove_dead_code
from explorer.passes.simplify.fold_batch_norm import fold_batch_norm
from explorer.passes.simplify.fold_constants import fold_constants
from explorer.passes.simplify.integer_weights import keep_integer_weights
from explorer.passes.simplify.narrow_products import NarrowProducts
from explorer.passes.simplify.sink_squeezes import sink_squeezes
from explorer.passes.softmax.online_price import Price as PriceOf
from explorer.passes.softmax.online_price import PriceInBlocks
from explorer.passes.switches.arrangement import arranged
from explorer.rammer import Ram
from explorer.relax import FuseOps, Legalize, deduce
from explorer.relax.dispatch import Dispatch, patterns
from explorer.relax.memory.plan import PlanMemory
from explorer.relax.memory.workspace import LiftWorkspaces
from explorer.relax.reductions.shared_reductions import ShareLongReductions
from explorer.relax.reductions.split_reduction import SplitReduction
from explorer.relax.reshape_kernels import name_reshapes
from explorer.roller import Price, Roll
from explorer.roller.legal_tiles import LegalTiles
from explorer.runtime.control.select_control_schedule import SelectControlSchedule
from explorer.stored.tiers import Kept, kept
from explorer.stored.why_not import WhyNot, why_not
from explorer.tile.gpu.matrix_units import has_matrix_units
from explorer.welder import JoinResults, Weld

Progress = Callable[[str, int, int], None]


def pipeline(options: Options, device: Device) -> tuple[Step, ...]:
    """Every step in order, under the name that the pictures show. Passes of the user's own stand
    after the steps that they name; then `options.steps` says which are off, and where they stand.
    """
    libraries = patterns(options.relax.dispatch)
    dispatch = (Step("dispatch to libraries", Stage.DIFFERENTIATED, Dispatch(libraries)),)
    fuse = (
        Step("fuse operators", Stage.LEGALIZED, FuseOps()),
        Step("name reshapes", Stage.LEGALIZED, name_reshapes),
    )
    lift = _lifting(device) if options.relax.lift else ()
    filtering = Winograd(device, Price(device, 1), options.convolution)
    price = PriceInBlocks(Price(device), options.softmax)
    measured = _measuring(options, device)
    grouping = replace(options.welder, enabled=options.welder.enabled and not options.relax.fuse)
    legalise = Legalize(options.recurrent.unroll)
    steps = (
        Step("deduce shapes", Stage.TYPED, deduce),
        Step("inline calls", Stage.TYPED, inline_calls),
        Step("fold constants", Stage.TYPED, fold_constants),
        Step("sink squeezes", Stage.TYPED, sink_squeezes),
        Step("multiply bytes", Stage.TYPED, multiply_bytes),
        Step("count loops", Stage.TYPED, count_loops),
        Step("share products", Stage.TYPED, ShareProducts(device, options.recurrent)),
        Step("split loops over layers", Stage.TYPED, SplitLoops(device, options.recurrent)),
        Step("multiply rows ahead", Stage.TYPED, HoistRowProducts(device, options.recurrent)),
        Step("differentiate", Stage.DIFFERENTIATED, Differentiate(legalise)),
        *_in_place(options, device),
        *(dispatch if libraries else ()),
        Step("legalise to kernels", Stage.LEGALIZED, legalise),
        Step("remove dead code", Stage.LEGALIZED, remove_dead_code),
        Step("share equal expressions", Stage.LEGALIZED, share_common_subexpressions),
        Step("fold scales into weights", Stage.LEGALIZED, fold_batch_norm),
        Step("keep integer weights", Stage.LEGALIZED, keep_integer_weights),
        *_narrow(device),
        Step("fold copies into kernels", Stage.LEGALIZED, fold_copies),
        Step("put channels last", Stage.LEGALIZED, ChooseLayout(device.kind != "gpu")),
        Step("fold copies of layouts", Stage.LEGALIZED, fold_copies),
        *_copying(device),
        Step("write joins in place", Stage.LEGALIZED, write_concats_in_place),
        Step("update in place", Stage.LEGALIZED, update_in_place),
        Step("clean up", Stage.LEGALIZED, remove_dead_code),
        Step("share long folds", Stage.LEGALIZED, _sharing(device)),
        *(fuse if options.relax.fuse else ()),
        *lift,
        *_if_conversion(options, device, price),
        Step("grind control flow", Stage.TASKED, Grind(options.grinder)),
        Step("weld", Stage.WELDED, Weld(device, price, grouping)),
        *(
            (Step("join results", Stage.WELDED, JoinResults(device)),)
            if options.welder.enabled
            else ()
        ),
        Step("walk softmax in blocks", Stage.WELDED, options.softmax),
        Step("choose convolutions", Stage.WELDED, filtering),
        Step("roll", Stage.ROLLED, Roll(device, options.roller)),
        *measured,
        *_recomputing(options),
        Step("ram", Stage.RAMMED, Ram(device, options.rammer)),
        Step(
            "choose ways of control flow",
            Stage.RAMMED,
            SelectControlSchedule(device, options.grinder),
        ),
        *_measuring_ways(options, device),
        Step("plan memory", Stage.PLANNED, PlanMemory(options.memory)),
    )
    return arranged(placed(steps, options.passes, LegalTiles(device)), options.steps)


def _copying(device: Device) -> tuple[Step, ...]:
    """Thread blocks take their steps from registers."""
    if device.kind != "cpu":
        return ()
    return (Step("copy symbolic steps", Stage.LEGALIZED, copy_symbolic_steps),)


def _narrow(device: Device) -> tuple[Step, ...]:
    """Products of 16-bit floats, where the device makes them."""
    if not has_matrix_units(device):
        return ()
    return (Step("keep products narrow", Stage.LEGALIZED, NarrowProducts(device)),)


def _measuring_ways(options: Options, device: Device) -> tuple[Step, ...]:
    """So are the ways of loops and branches."""
    count = options.grinder.measure
    return (Step("measure ways", Stage.RAMMED, MeasureWays(device, count)),) if count else ()


def _if_conversion(options: Options, device: Device, price: PriceOf) -> tuple[Step, ...]:
    """Small branches are computed on both sides, where no other schedule was asked for."""
    grinder = options.grinder
    if grinder.schedule != "auto" or not grinder.inline_branches:
        return ()
    return (Step("compute both sides", Stage.TASKED, IfConversion(device, price)),)


def _measuring(options: Options, device: Device) -> tuple[Step, ...]:
    """The best candidates of each kernel are timed where that is asked for."""
    count = options.roller.measure
    return (Step("measure tiles", Stage.ROLLED, MeasureTiles(device, count)),) if count else ()


def _in_place(options: Options, device: Device) -> tuple[Step, ...]:
    """Where memory is to be saved, loops stack rows over such as they read: blocks of threads have
    no such stores.
    """
    if not options.rematerialisation.is_set or device.kind != "cpu":
        return ()
    return (Step("stack rows in place", Stage.DIFFERENTIATED, stack_in_place),)


def _recomputing(options: Options) -> tuple[Step, ...]:
    """Values are computed again where that is asked for."""
    if not options.rematerialisation.is_set:
        return ()
    again = Rematerialise(options.rematerialisation)
    return (Step("rematerialise", Stage.ROLLED, again),)


def _sharing(device: Device) -> ShareLongReductions:
    """Long sums in parts: where a data sheet tells what thread blocks take, as that says."""
    if device.kind != "gpu":
        return ShareLongReductions(device.units)
    return ShareLongReductions(device.units, Price(device), device.barrier_us)


def _lifting(device: Device) -> tuple[Step, ...]:
    """Sums are split where their results have fewer tiles than the device has units."""
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
    """The model compiled for a target, through `until`.

    `model`: a Model, or what `explorer.load` takes. `target`: "cpu" (this machine), or a device,
    its name or its data sheet's path to look at what would be done there; only this machine runs.
    `check` validates every step on random inputs, and lets runs write over NaN. `donate` names the
    inputs whose arrays a run may write an output into, as JAX's `donate_argnums`. `progress(step,
    done, steps)` is told how far it is. Raises BadModelFile, UnsupportedOperator, TraceError,
    BadOption, BadPolicy, BadPass, NoSuchDevice, BadSheet, or Cancelled where `cancelled()` says so.
    """
    given = model if isinstance(model, Model) else load(model)
    chosen = (options or Options()).entered
    donated = _donated(given, donate)
    told, asked = progress or listener(), cancelled or wanted_by()
    return _compiled(given, device_of(target), chosen, until, check, told, asked, donated)


def _donated(given: Model, donate: Collection[str]) -> tuple[str, ...]:
    known = tuple(given.inputs)
    names = (donate,) if isinstance(donate, str) else tuple(donate)
    for name in names:
        if name not in known:
            raise BadOption(
                f"{given.name} has no input {name!r} to donate",
                where=str(name),
                expected=", ".join(known),
            )
    return names


def _compiled(
    given: Model,
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
    """With the passes that the options hold, and no others. `looks`: it may lie on disk already;
    `keeps`: it will. What is compiled from it with other options will not, as people turn knobs,
    nor is it looked for where the passes have run: this process remembers more of them.
    """
    asked = _asked(given, device, chosen, until, check, donated)

    def again(
        changed: Options, until: Stage | str | None = None, env: ShapeEnv | None = None
    ) -> Compilation:
        last = asked.last if until is None else until
        rest = (check, listener(), wanted_by(), donated)
        if env is not None:
            return _compiled(_within(given, env), device, changed, last, *rest)
        return _compiled(given, device, changed, last, *rest, found is not None, False)

    whole = asked.wanted if looks else None
    found = opened(asked, whole, again, progress, cancelled)
    return found or made(asked, whole if keeps else None, again, progress, cancelled)


def _within(given: Model, env: ShapeEnv | None) -> Model:
    """The model with other bounds and hints of its symbols, where they are given."""
    return given if env is None else replace(given, program=replace(given.program, env=env))


def halted(
    model: Any,
    target: str | PathLike[str] | Device = "cpu",
    options: Options | None = None,
    until: Stage | str = Stage.PLANNED,
    check: bool = False,
    *,
    donate: Collection[str] = (),
) -> tuple[Compilation, Ended] | None:
    """Where compiling ends in an error, the compilation as far as the step before it came, and that
    error; None where it ends in none. Arguments as `compile` takes them; no code is generated.
    """
    given = model if isinstance(model, Model) else load(model)
    chosen, donated = (options or Options()).entered, _donated(given, donate)
    device = device_of(target)
    last = min(stage_of(until), Stage.PLANNED)
    found = ended(_asked(given, device, chosen, last, check, donated), wanted_by())
    if found is None:
        return None
    short, problem = found

    def again(
        changed: Options, until: Stage | str | None = None, env: ShapeEnv | None = None
    ) -> Compilation:
        rest = (until or short.last, check, listener(), wanted_by(), donated, False, False)
        return _compiled(_within(given, env), device, changed, *rest)

    return made(short, None, again, None, None), problem


def _asked(
    given: Model,
    device: Device,
    chosen: Options,
    until: Stage | str = Stage.EMITTED,
    check: bool = False,
    donated: tuple[str, ...] = (),
) -> Asked:
    device = changed_hardware(device, chosen.hardware.changed)
    end = Stage.EMITTED if device.kind == "cpu" else Stage.PLANNED
    last = min(stage_of(until), end)
    steps = tuple(s for s in pipeline(chosen, device) if s.stage <= last)
    return Asked(given, device, chosen, steps, last, last == end, check, donated)


def why_not_kept(
    model: Any,
    target: str | PathLike[str] | Device = "cpu",
    options: Options | None = None,
    *,
    donate: Collection[str] = (),
) -> WhyNot:
    """Whether a later process would find this compilation on disk, and if not, why: arguments as
    `compile` takes them.
    """
    given = model if isinstance(model, Model) else load(model)
    chosen = (options or Options()).entered
    asked = _asked(given, device_of(target), chosen, donated=_donated(given, donate))
    return why_not(given.name, asked.wanted)


def kept_where(c: Compilation) -> Kept:
    """In which tiers of the cache this compilation lies now, and the parts of its key."""
    wanted = _asked(c.model, c.device, c.options, donated=c.donate).wanted
    kernels = (code.machine.key for code in c.codes.values())
    return kept(wanted, why_not(c.model.name, wanted), kernels)


def stage_of(until: Stage | str) -> Stage:
    """A stage by its name."""
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
    """A device by its name, or by the path of its data sheet; "cpu" and "this-cpu" are this
    machine, "cpu-avx2" and its like this machine with other vectors.

    Raises NoSuchDevice, and BadSheet where a sheet of one's own is none.
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
    return this_cpu() if name in HERE else plugins.device(name)


__all__ = [
    "Cancelled",
    "Compilation",
    "compile",
    "device_of",
    "kept_where",
    "pipeline",
    "stage_of",
    "why_not_kept",
]
