"""Groups of fused kernels, and the merge of two groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from explorer.devices.model import Device
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tile_graph import TileEdge
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel, Size, size_of
from explorer.ir.kernels.merge import concatenate, share_inputs
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding
from explorer.ir.types import Tensor
from explorer.transforms.copies.split_axes import open_inner_dims
from explorer.welder.model import Price, form_of
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.sized_tile import SizedTile
from explorer.welder.tiles.tile_costs import holder

CACHED_KERNELS = 4096  # cached single and merged kernels: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels fused so far; the last of them stores.

    `number` is the last one's position in the program; `uses` counts the reads of each value that
    are inside. In `kernel` an origin is numbers, as text, of entries of `origins`: kernels that
    differ in origins only are one object.
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
    tile: SizedTile | None = None  # the policy's choice; None: Roller chooses
    origins: tuple[frozenset[str], ...] = ()

    @property
    def with_origins(self) -> Kernel:
        """The kernel whose computes have their source operators."""
        return _with_origins(self.kernel, lambda n: self.origins[n])

    @property
    def binding(self) -> Binding:
        """The call of the group's kernel."""
        kernel = self.with_origins
        specs = [kernel.spec(name) for name in kernel.outputs]
        names = (self.name, *kernel.outputs[1:])
        results = (Var(n, Tensor(s.shape, s.dtype)) for n, s in zip(names, specs, strict=True))
        return Binding(tuple(results), KernelCall(kernel, self.args), self.origin)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts for a policy beside the groups.

    They are the device, the symbols, Roller's modelled time of a kernel, how often and by which
    bindings each value is read in the function, and its results. `connect` has edges that are put
    at a level by hand, `over` the positions where values are overwritten completely, and `rows` the
    values that are rows which a loop reads in place.
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
    """Two groups as one: the kernel, its arguments, and the tensor that the consumer reads."""

    kernel: Kernel
    args: tuple[Var, ...]
    tensor: str


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge under consideration: `consumer` reads the result of `producer` as `tensor`.

    `welded` is the fused kernel.
    """

    producer: Kernel
    consumer: Kernel
    tensor: str
    welded: Kernel


def single_group(number: int, binding: Binding, call: KernelCall, env: ShapeEnv) -> Group:
    """Return a kernel as a group of its own, which takes each value once.

    Values in memory that it writes have one name, whether it reads them or not.
    """
    computes = call.kernel.computes
    numbered = tuple(replace(c, origin=frozenset([str(n)])) for n, c in enumerate(computes))
    args_by_name = {a.name: a for a in call.args}
    own = replace(call.kernel, computes=numbered)
    shared, names = share_inputs(own, tuple(a.name for a in call.args))
    kernel = _normal(shared, env)
    name = binding.name
    return Group(
        number,
        name,
        kernel,
        tuple(args_by_name[n] for n in names),
        (name,),
        (form_of(kernel).word,),
        Counter(a.name for a in call.args),
        size_of(kernel),
        binding.origin,
        origins=tuple(c.origin for c in computes),
    )


def merge_kernels(group: Group, producer: Group, arg: Var, env: ShapeEnv) -> Merged:
    """Return both groups as one kernel, in normal form."""
    args = (*group.args, *producer.args)
    numbers: dict[str, int] = {}
    value_numbers = tuple(numbers.setdefault(a.name, len(numbers)) for a in args)
    parts = (group.kernel, producer.kernel, len(producer.origins))
    kernel, inputs, tensor = _merge_kernels(*parts, value_numbers, numbers[arg.name], env)
    by_number = dict(zip(value_numbers, args, strict=True))
    return Merged(kernel, tuple(by_number[n] for n in inputs), tensor)


@lru_cache(maxsize=CACHED_KERNELS)
def _normal(kernel: Kernel, env: ShapeEnv) -> Kernel:
    return normalise(open_inner_dims(kernel, env))


@lru_cache(maxsize=CACHED_KERNELS)
def _merge_kernels(
    group: Kernel,
    producer: Kernel,
    origins: int,
    value_numbers: tuple[int, ...],
    arg: int,
    env: ShapeEnv,
) -> tuple[Kernel, tuple[int, ...], str]:
    """Return the merged kernel, the values that it takes, and the consumer's tensor for `arg`.

    `value_numbers` are those of the values that both take, the group's first; `origins` is the
    number of the producer's.
    """
    own = tuple(map(str, value_numbers[: len(group.inputs)]))
    consumer, names = share_inputs(_with_origins(group, lambda n: {str(n + origins)}), own)
    tensor = consumer.inputs[names.index(str(arg))]
    both = concatenate(producer, consumer, tensor)
    others = (*map(str, value_numbers[len(group.inputs) :]), *(n for n in names if n != str(arg)))
    welded, inputs = share_inputs(both, others)
    return normalise(open_inner_dims(welded, env)), tuple(map(int, inputs)), tensor


def _with_origins(kernel: Kernel, of: Callable[[int], Iterable[str]]) -> Kernel:
    """Return the kernel with each number of an origin replaced."""
    computes = tuple(
        replace(c, origin=frozenset[str]().union(*(of(int(n)) for n in c.origin)))
        for c in kernel.computes
    )
    return replace(kernel, computes=computes)


def _near(producer: Kernel, both: Kernel, device: Device) -> str:
    """Return the memory through which a value passes.

    It is that of a task's tile if several reductions share one. Otherwise a map's result stays in
    registers, and a sum passes through the next memory.
    """
    if len([c for c in both.computes if c.reduce]) > 1:
        return holder(device).name
    return memories(device)[0 if form_of(producer).is_map else 1].name


def absorb(
    group: Group, producer: Group, arg: Var, both: Merged, device: Device, level: str = ""
) -> Group:
    """Return the group after it absorbed a producer.

    `level` is the device's memory through which the value passes, "" to choose one.
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
