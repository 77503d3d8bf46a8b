"""A compilation for WebGPU as plain data: shaders, one arena, weights, and dispatches in order.

A page runs it without Python (`widgets/live/webgpu.js`): it writes the weights and the fixed values
once, the inputs before each run, encodes all dispatches in one pass, submits once, and reads the
outputs. Every kernel call is a dispatch, or one for each of its tensors if no tile of it fits
workgroup memory.

    arena:   inputs | fixed values | intermediate results and outputs, which share words over time
    weights: constants, packed | values of the fixed part of the arena

Every tensor begins at a multiple of `ALIGNED_BYTES`. Elements lie as `explorer.codegen.wgsl.types`
says. 64-bit integers take 32 bits: those of inputs must be from `-2**30` to `2**30`, which the page
checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from explorer.codegen.wgsl.build import Shader
from explorer.codegen.wgsl.integers import (
    LEAST,
    MOST,
    MOST_INPUT,
    of_array,
    unbounded_integers,
)
from explorer.codegen.wgsl.parts import print_parts
from explorer.codegen.wgsl.print import ShaderOptions, dispatch_of
from explorer.codegen.wgsl.types import (
    SHADER_F16,
    SUBGROUPS,
    WIDE_INTEGERS,
    WORD_BYTES,
    packed_bytes,
    unprinted,
)
from explorer.compiler.inputs import checked_sizes
from explorer.errors import BadOption, CheckFailed
from explorer.grinder import OperatorTask
from explorer.grinder.model import Straight, UTask
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.dtypes import DType, is_float, numpy_dtype
from explorer.ir.program import Program
from explorer.plain_text import counted, size
from explorer.portable.portable_program import PortableTensor
from explorer.printed import Printed
from explorer.runtime.planning.plan import Plan

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

FORMAT = 1
ALIGNED_BYTES = 256  # of the offset of a binding: W3C, WebGPU, minStorageBufferOffsetAlignment
MOST_BYTES = 1 << 31  # of a buffer: an element's number is an i32
BINDING_BYTES, BUFFER_BYTES = 1 << 27, 1 << 28  # defaults of the limits: W3C, WebGPU, 3.6.2
LANES = (32, 4)  # of the subgroups that variants are printed for: of most GPUs, and SwiftShader
EXTENSIONS = {SHADER_F16: "enable f16;", SUBGROUPS: "enable subgroups;"}
NEVER = 1 << 60  # a position after the last dispatch


@dataclass(frozen=True, slots=True)
class ShaderVariant:
    """A shader for adapters with the features `needs`; `lanes` threads are in one subgroup."""

    needs: tuple[str, ...]
    lanes: int
    source: str


@dataclass(frozen=True, slots=True)
class ProgramShader:
    """A shader for every adapter, and its variants, the fastest first."""

    shader: Shader
    variants: tuple[ShaderVariant, ...]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A kernel call: its shader's number, and the first element of each of its tensors."""

    shader: int
    places: tuple[int, ...]
    name: str
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """A dispatch before values are placed: a call, or a part of it.

    `values` are the program's values by the kernel's tensors; intermediate tensors of a call in
    parts have names of their own.
    """

    shader: Shader
    values: Mapping[str, str]
    name: str
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FixedValue:
    """Words of the weights that are copied to the arena once."""

    at: int
    weights_at: int
    words: int


@dataclass(frozen=True, slots=True, repr=False)
class WebGpuProgram(Printed):
    """A program for WebGPU with all sizes bound; `arrays`: where arrays of its weights begin."""

    name: str
    device: str
    sizes: tuple[tuple[str, int], ...]
    inputs: tuple[PortableTensor, ...]
    outputs: tuple[PortableTensor, ...]
    shaders: tuple[ProgramShader, ...]
    dispatches: tuple[Dispatch, ...]
    fixed: tuple[FixedValue, ...]
    arena_bytes: int
    weights: bytes
    arrays: tuple[int, ...]

    def __str__(self) -> str:
        """Return the name, and what it consists of."""
        dispatches = counted(len(self.dispatches), "dispatch", "dispatches")
        shaders = counted(len(self.shaders), "shader")
        weights, arena = size(len(self.weights)), size(self.arena_bytes)
        return f"{self.name} for WebGPU: {dispatches} of {shaders}, {weights} of weights, {arena}"

    @property
    def limits(self) -> dict[str, int]:
        """The limits beyond the defaults that a device must be requested with."""
        most = max(self.arena_bytes, len(self.weights))
        defaults = {"maxStorageBufferBindingSize": BINDING_BYTES, "maxBufferSize": BUFFER_BYTES}
        return {name: most for name, default in defaults.items() if most > default}

    def to_dict(self) -> dict[str, Any]:
        """Return all but the weights as values of JSON."""
        return {
            "format": FORMAT,
            "name": self.name,
            "device": self.device,
            "sizes": dict(self.sizes),
            "inputs": [t.to_dict() for t in self.inputs],
            "outputs": [t.to_dict() for t in self.outputs],
            "arena": self.arena_bytes,
            "weights": len(self.weights),
            "limits": self.limits,
            "mostInteger": MOST_INPUT,
            "shaders": [_shader(s) for s in self.shaders],
            "dispatches": [_dispatch(d, self.shaders[d.shader]) for d in self.dispatches],
            "fixed": [[f.at, f.weights_at, f.words] for f in self.fixed],
        }


def webgpu_program(c: Compilation, sizes: Sizes | None = None) -> WebGpuProgram:
    """Return a compilation for WebGPU as a program of dispatches, each alone on the device.

    Args:
        c: A compilation for the data sheet `webgpu`, or another one with its target.
        sizes: A size for each symbol; by default those of `c.hint`.

    Raises:
        BadOption: It was compiled for another target; it has loops, branches or library calls; or
            a kernel has no shader.
        ShapeError, BoundError: The sizes are not possible.
    """
    if c.device.target != "webgpu":
        raise BadOption(
            f"{c.model.name} was compiled for {c.device.name}, not for WebGPU",
            where=c.device.name,
            try_='explorer.compile(model, "webgpu")',
        )
    executable = c.executable
    if executable.frames is not None:
        _refuse(c, "values decide shapes, or calls that only Python can make")
    every = checked_sizes(c.model, {**c.hint, **(sizes or {})}, c.hint)
    arrays: Mapping[str, np.ndarray] = {}
    if executable.shape_computation is not None:
        every, arrays = executable.shape_computation.of(every)
    executable.check_relations(every)
    plan = executable.plan(every)
    count = len(plan.program.inputs) - len(arrays)
    shapes = dict(zip(plan.program.inputs[count:], arrays.values(), strict=True))
    return _Builder(c, plan, executable.program, shapes).program()


def _refuse(c: Compilation, why: str, where: str = "") -> NoReturn:
    raise BadOption(
        f"{c.model.name} has no program for WebGPU: {why}",
        where=where or c.model.name,
        expected="kernels of float32, 32-bit integers and bool without control flow",
    )


class _Builder:
    """The program of one plan; `shapes` are the inputs that the sizes determine."""

    def __init__(
        self,
        c: Compilation,
        plan: Plan,
        program: Program,
        shapes: Mapping[str, np.ndarray],
    ) -> None:
        self.c, self.plan, self.values, self.shapes = c, plan, plan.program.values, shapes
        self.inputs = tuple(name for name in plan.program.inputs if name not in shapes)
        bounds = {name: of_array(array) for name, array in shapes.items()}
        self.unbounded = unbounded_integers(program, plan.sizes, bounds)
        self.numbers: dict[str, int] = {}
        self.shaders: list[ProgramShader] = []
        self.weights = bytearray()
        self.arrays: list[int] = []
        self.weights_of: dict[str, int] = {}
        self.fixed: list[FixedValue] = []
        self.places: dict[str, int] = {}
        self.end = 0  # of the arena, in words
        self.inner: dict[str, int] = {}  # elements of intermediate tensors of calls in parts

    def program(self) -> WebGpuProgram:
        tasks = self.plan.program
        for name in (*self.inputs, *tasks.outputs):
            if why := unprinted(self.values[name].type.element):
                _refuse(self.c, f"its value {name!r} cannot be passed: {why}", name)
        steps = [s for o in self.straight_operators(tasks.parts) for s in self.steps(o)]
        self.place_values(steps)
        dispatches = tuple(map(self.dispatch, steps))
        names = zip(tasks.output_names, tasks.outputs, strict=True)
        outputs = tuple(self.tensor(name, value) for name, value in names)
        arena_bytes = max(ALIGNED_BYTES, self.end * WORD_BYTES)
        for what, count in (("arena", arena_bytes), ("weights", len(self.weights))):
            if count >= MOST_BYTES:
                _refuse(self.c, f"its {what} takes {size(count)}, a buffer has 2 GiB at most")
        return WebGpuProgram(
            self.c.model.name,
            self.c.device.name,
            tuple(sorted((name, self.plan.sizes[name]) for name in self.c.hint)),
            tuple(self.tensor(name, name) for name in self.inputs),
            outputs,
            tuple(self.shaders),
            dispatches,
            tuple(self.fixed),
            arena_bytes,
            bytes(self.weights) or bytes(ALIGNED_BYTES),
            tuple(self.arrays),
        )

    def straight_operators(self, parts: Iterable[UTask]) -> Iterator[OperatorTask]:
        """Yield the kernel calls in order; refuse everything else."""
        for part in parts:
            if not isinstance(part, Straight):
                kind = type(part).__name__.removesuffix("Task").lower()
                what = "call of a library" if kind == "library" else kind
                _refuse(self.c, f"the {what} {part.name!r} needs a host between dispatches")
            yield from part.operators

    def steps(self, o: OperatorTask) -> Iterator[_Step]:
        """Yield the dispatches of a call; constants among its arguments are weights."""
        if o.binding in self.unbounded:
            _refuse(self.c, f"in {o.binding!r}, {self.unbounded[o.binding]}", o.binding)
        kernel = o.call.kernel
        args = zip(kernel.inputs, o.args, strict=True)
        constants = (name for name, arg in args if self.root_home(arg) == "constant")
        kernel = replace(kernel, constants=frozenset(constants))
        block = self.plan.blocks.get(o.binding, (None,))[0]
        env, sizes = self.c.program.env, self.plan.sizes
        try:
            parts = print_parts(kernel, self.c.device, env, sizes, block)
        except (BadOption, CheckFailed) as problem:
            _refuse(self.c, f"in {o.binding!r}, {problem.sentence}", o.binding)
        values = dict(zip(kernel.inputs, o.args, strict=True))
        values |= zip(kernel.outputs, o.results, strict=True)
        if any(self.root_home(v) == "constant" for v in o.results):
            _refuse(self.c, f"{o.binding!r} writes over a constant", o.binding)
        for part, shader in parts:
            for name in part.outputs:
                if name not in values:
                    values[name] = f"{o.name}/{name}"
                    self.inner[values[name]] = prod(evaluate_shape(part.shape(name), sizes))
            of = "" if len(parts) == 1 else f"/{part.output}"
            if shader.grid:
                yield _Step(shader, dict(values), o.name + of, tuple(sorted(o.origin)))

    def root(self, name: str) -> str:
        return name if name in self.inner else self.values[name].root

    def root_home(self, name: str) -> str:
        return "buffer" if name in self.inner else self.values[self.values[name].root].home

    def elements(self, name: str) -> int:
        return self.inner[name] if name in self.inner else prod(self.plan.shape(name))

    def place_values(self, steps: Sequence[_Step]) -> None:
        """Place inputs, then results; those that are never alive together share words."""
        for name in self.inputs:
            self.places[name] = self.take(self.elements(name))
        spans: dict[str, tuple[int, int]] = {}
        for n, step in enumerate(steps):
            for root in {self.root(step.values[t.name]) for t in step.shader.tensors}:
                if self.root_home(root) == "buffer":
                    spans[root] = spans.get(root, (n, n))[0], n
        for name in self.plan.program.outputs:
            root = self.values[name].root
            if self.values[root].home == "buffer":
                spans[root] = spans.get(root, (0, 0))[0], NEVER
        words = {root: _aligned(self.elements(root)) for root in spans}
        begin = self.end
        for root, at in _placed(spans, words).items():
            self.places[root] = begin + at
            self.end = max(self.end, begin + at + words[root])

    def take(self, words: int) -> int:
        """Return the first of some words that nothing else takes."""
        at = self.end
        self.end += _aligned(words)
        return at

    def weight(self, root: str) -> int:
        """Return the first element of a constant among the weights."""
        if root not in self.weights_of:
            array = self.narrowed(root, self.c.program.constants[root].array)
            self.weights_of[root] = self.append(array.tobytes())
        return self.weights_of[root] // packed_bytes(self.values[root].type.element)

    def append(self, data: bytes) -> int:
        """Add bytes to the weights; return their offset."""
        at = len(self.weights)
        self.arrays.append(at)
        self.weights += data + bytes(-len(data) % ALIGNED_BYTES)
        return at

    def narrowed(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return a constant whose 64-bit integers are narrowed to 32 bits."""
        dtype = self.values[name].type.element
        if why := unprinted(dtype):
            _refuse(self.c, f"the constant {name!r} cannot be stored: {why}", name)
        if dtype not in WIDE_INTEGERS:
            return array
        low, high = (0, MOST) if dtype == "uint64" else (LEAST, MOST)
        if array.size and not (low <= int(array.min()) and int(array.max()) <= high):
            _refuse(self.c, f"the constant {name!r} has integers of more than 32 bits", name)
        return array.astype(np.uint32 if dtype == "uint64" else np.int32)

    def in_arena(self, name: str) -> int:
        """Return the first word of a value in the arena; a fixed value is copied there once."""
        if self.root(name) not in self.places:
            self.fix(self.root(name))
        offset = 0 if name in self.inner else self.values[name].offset
        return self.places[self.root(name)] + evaluate_dim(offset, self.plan.sizes)

    def fix(self, root: str) -> None:
        """Place a constant, or the elements of a shape, in the arena."""
        match self.values[root].home:
            case "input":
                array = self.narrowed(root, self.shapes[root])
            case "constant":
                array = self.narrowed(root, self.c.program.constants[root].array)
            case "shape":
                dims = [evaluate_dim(d, self.plan.sizes) for d in self.values[root].dims]
                array = self.narrowed(root, np.array(dims, np.int64))
            case _:
                _refuse(self.c, f"the value {root!r} is not computed by a kernel", root)
        data = as_words(array, self.values[root].type.element).tobytes()
        self.places[root] = self.take(array.size)
        begin = self.append(data) // WORD_BYTES
        self.fixed.append(FixedValue(self.places[root], begin, array.size))

    def dispatch(self, step: _Step) -> Dispatch:
        """Return a step with the places of its tensors."""
        places = []
        for t in step.shader.tensors:
            name = step.values[t.name]
            if t.is_weight:
                value = self.values[name]
                at = self.weight(value.root) + evaluate_dim(value.offset, self.plan.sizes)
            else:
                at = self.in_arena(name)
            places.append(at + t.offset)
        return Dispatch(self.number(step.shader), tuple(places), step.name, step.origin)

    def number(self, shader: Shader) -> int:
        """Return the number of a shader; equal sources are one shader."""
        if shader.source not in self.numbers:
            self.numbers[shader.source] = len(self.shaders)
            self.shaders.append(ProgramShader(shader, tuple(_variants(shader))))
        return self.numbers[shader.source]

    def tensor(self, name: str, value: str) -> PortableTensor:
        """Return an input or output."""
        dtype = self.values[value].type.element
        return PortableTensor(name, dtype, self.plan.shape(value), self.in_arena(value))


def _variants(shader: Shader) -> Iterator[ShaderVariant]:
    """Yield the variants of a shader that differ from it, those with most features first."""
    sources = {shader.source}
    half, together = frozenset({SHADER_F16}), frozenset({SUBGROUPS})
    for lanes in (*LANES, 0):
        for features in (half | together, together) if lanes else (half,):
            source = shader.with_options(ShaderOptions(features, lanes)).source
            if source not in sources:
                sources.add(source)
                needs = tuple(name for name, text in EXTENSIONS.items() if text in source)
                yield ShaderVariant(needs, lanes if SUBGROUPS in needs else 0, source)


def _placed(spans: Mapping[str, tuple[int, int]], words: Mapping[str, int]) -> dict[str, int]:
    """Return the first word of each result: the largest first, each at the lowest free place."""
    places: dict[str, int] = {}
    for name in sorted(spans, key=lambda n: (-words[n], spans[n], n)):
        first, last = spans[name]
        taken = sorted(
            (at, at + words[other])
            for other, at in places.items()
            if spans[other][0] <= last and first <= spans[other][1]
        )
        at = 0
        for begin, end in taken:
            if at + words[name] <= begin:
                break
            at = max(at, end)
        places[name] = at
    return places


def _aligned(words: int) -> int:
    each = ALIGNED_BYTES // WORD_BYTES
    return -(-max(1, words) // each) * each


def as_words(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the elements of an array as they lie in the arena, as flat uint32."""
    flat = np.ravel(np.ascontiguousarray(array))
    if is_float(dtype):
        return flat.astype(np.float32).view(np.uint32)
    return flat.astype(np.int64).astype(np.uint32)


def from_words(words: np.ndarray, t: PortableTensor) -> np.ndarray:
    """Return a tensor of the arena as an array of its dtype."""
    dtype = numpy_dtype(t.dtype)
    if is_float(t.dtype):
        return words.view(np.float32).astype(dtype).reshape(t.shape)
    unsigned = t.dtype.startswith("uint") or t.dtype == "bool"
    return (words if unsigned else words.view(np.int32)).astype(dtype).reshape(t.shape)


def _shader(s: ProgramShader) -> dict[str, Any]:
    variants = [{"needs": list(v.needs), "lanes": v.lanes, "source": v.source} for v in s.variants]
    return {"source": s.shader.source, "variants": variants, "threads": s.shader.threads}


def _dispatch(d: Dispatch, s: ProgramShader) -> list[Any]:
    groups = list(dispatch_of(s.shader.grid))
    return [d.shader, list(d.places), groups, d.name, list(d.origin)]
