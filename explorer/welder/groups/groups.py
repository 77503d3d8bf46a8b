"""Kernels that have become one so far, and two such groups as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from explorer.devices.model import Device
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tile_graph import TileEdge
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.kernel_size import Size, size_of
from explorer.ir.kernels.merge import concatenate, share_inputs
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Tensor
from explorer.passes.copies.split_axes import open_inner_dims
from explorer.welder.model import Price, form_of
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.sized import Sized
from explorer.welder.tiles.tile_costs import holder

REMEMBERED_KERNELS = 4096  # alone and merged, cells are equal: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels that have become one so far; the last of them is the one that stores.

    `number` is the last one's place in the program; `uses` counts the reads of each value that are
    inside. In `kernel` an origin is numbers, as text, of entries of `origins`: kernels that are
    equal but for where they come from are one object.
    """

    number: int
    name: str
    kernel: Kernel
    args: tuple[Var, ...]
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    uses: Counter[str]
    size: Size
    origin: frozenset[str] = frozenset()
    inner: tuple[TileEdge, ...] = ()
    steps: tuple[Candidate[bool], ...] = ()
    tile: Sized | None = None  # that the policy has chosen; None: it leaves that to Roller
    origins: tuple[frozenset[str], ...] = ()

    @property
    def with_origins(self) -> Kernel:
        """The kernel whose computes say which source operators they come from."""
        return _with_origins(self.kernel, lambda n: self.origins[n])

    @property
    def binding(self) -> Binding:
        """What the group is as it stands: a call of its kernel."""
        kernel = self.with_origins
        specs = [kernel.spec(name) for name in kernel.outputs]
        names = (self.name, *kernel.outputs[1:])
        made = (Var(n, Tensor(s.shape, s.dtype)) for n, s in zip(names, specs, strict=True))
        return Binding(tuple(made), KernelCall(kernel, self.args), self.origin)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a policy may know beside the groups: the machine, the symbols, Roller's modelled time of
    a kernel, how often and by which bindings each value is read in the whole function, its results,
    edges that are put at a level by hand, where values are written over as a whole, and values that
    are rows which a loop reads where they lie.
    """

    device: Device
    env: ShapeEnv
    price: Price
    uses: Mapping[str, int]
    readers: Mapping[str, Sequence[str]]
    results: frozenset[str]
    connect: Mapping[str, str]
    over: Mapping[str, int] = field(default_factory=dict)
    rows: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Merged:
    """Two groups as one: the kernel, what it is given, and what the consumer read as `tensor`."""

    kernel: Kernel
    args: tuple[Var, ...]
    tensor: str


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge under consideration: `consumer` reads what `producer` writes as `tensor`; `welded`
    does both.
    """

    producer: Kernel
    consumer: Kernel
    tensor: str
    welded: Kernel


def alone(number: int, binding: Binding, call: KernelCall, env: ShapeEnv) -> Group:
    """A kernel as a group of its own, which is given each value once: what lies in the memory that
    it writes has one name, whether it reads it or not.
    """
    computes = call.kernel.computes
    numbered = tuple(replace(c, origin=frozenset([str(n)])) for n, c in enumerate(computes))
    given = {a.name: a for a in call.args}
    own = replace(call.kernel, computes=numbered)
    shared, names = share_inputs(own, tuple(a.name for a in call.args))
    kernel = _normal(shared, env)
    name = binding.name
    return Group(
        number,
        name,
        kernel,
        tuple(given[n] for n in names),
        (name,),
        (form_of(kernel).word,),
        Counter(a.name for a in call.args),
        size_of(kernel),
        binding.origin,
        origins=tuple(c.origin for c in computes),
    )


def merged(group: Group, producer: Group, arg: Var, env: ShapeEnv) -> Merged:
    """Both groups as one kernel, in normal form."""
    args = (*group.args, *producer.args)
    numbers: dict[str, int] = {}
    given = tuple(numbers.setdefault(a.name, len(numbers)) for a in args)
    parts = (group.kernel, producer.kernel, len(producer.origins))
    kernel, kept, tensor = _merged(*parts, given, numbers[arg.name], env)
    by_number = dict(zip(given, args, strict=True))
    return Merged(kernel, tuple(by_number[n] for n in kept), tensor)


@lru_cache(maxsize=REMEMBERED_KERNELS)
def _normal(kernel: Kernel, env: ShapeEnv) -> Kernel:
    return normalise(open_inner_dims(kernel, env))


@lru_cache(maxsize=REMEMBERED_KERNELS)
def _merged(
    group: Kernel,
    producer: Kernel,
    origins: int,
    given: tuple[int, ...],
    arg: int,
    env: ShapeEnv,
) -> tuple[Kernel, tuple[int, ...], str]:
    """The merged kernel, which values it is given, and what the consumer calls `arg`. `given`: the
    values that both are given, by number, the group's first; `origins`: how many the producer has.
    """
    own = tuple(map(str, given[: len(group.inputs)]))
    consumer, names = share_inputs(_with_origins(group, lambda n: {str(n + origins)}), own)
    tensor = consumer.inputs[names.index(str(arg))]
    both = concatenate(producer, consumer, tensor)
    others = (*map(str, given[len(group.inputs) :]), *(n for n in names if n != str(arg)))
    welded, kept = share_inputs(both, others)
    return normalise(open_inner_dims(welded, env)), tuple(map(int, kept)), tensor


def _with_origins(kernel: Kernel, of: Callable[[int], Iterable[str]]) -> Kernel:
    """The kernel with what stands for each number of an origin."""
    computes = tuple(
        replace(c, origin=frozenset[str]().union(*(of(int(n)) for n in c.origin)))
        for c in kernel.computes
    )
    return replace(kernel, computes=computes)


def _near(producer: Kernel, both: Kernel, device: Device) -> str:
    """Where a value is handed over: with a task's tile where several reductions share one, else in
    registers what is only mapped, and in the next memory what is summed.
    """
    if len([c for c in both.computes if c.reduce]) > 1:
        return holder(device).name
    return memories(device)[0 if form_of(producer).is_map else 1].name


def taken(
    group: Group, producer: Group, arg: Var, both: Merged, device: Device, level: str = ""
) -> Group:
    """The group when it has taken a producer in; `level` is the device's memory where the value is
    handed over, "" where nobody has chosen one.
    """
    level = level or _near(producer.kernel, both.kernel, device)
    size = arg.type.bytes if isinstance(arg.type, Tensor) and arg.type.is_known else 0
    edge = TileEdge(producer.members[-1], group.members[0], arg.name, size, level)
    return replace(
        group,
        kernel=both.kernel,
        args=both.args,
        size=size_of(both.kernel),
        members=(*producer.members, *group.members),
        kinds=(*producer.kinds, *group.kinds),
        uses=group.uses + producer.uses,
        origin=producer.origin | group.origin,
        inner=(*group.inner, *producer.inner, edge),
        steps=(*producer.steps, *group.steps),
        origins=(*producer.origins, *group.origins),
    )
