"""TileProgram of a thread block -> a compute shader in WGSL.

Every shader binds the same three buffers: `weights` and `arena`, of 32-bit words, and `places`, the
first element of each of its tensors in them. So one bind group serves a whole program, whose
dispatches differ in a dynamic offset into `places`; and no kernel has too many bindings.

A checked shader tests that elements are in bounds of their tensors, begins with poison in workgroup
memory, and takes its workgroups and threads in the order of a fourth buffer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from explorer.codegen.wgsl.emitter import Emitter
from explorer.codegen.wgsl.expressions import native_declarations
from explorer.codegen.wgsl.functions import declarations
from explorer.codegen.wgsl.statements import EXCHANGED, begin_shuffle, statement
from explorer.codegen.wgsl.types import (
    SHADER_F16,
    SUBGROUPS,
    WORD_BYTES,
    packed_bytes,
    value_type,
    workgroup_bytes,
    workgroup_type,
)
from explorer.ir.tile_program import REGISTER, Buffer, Shuffle, TileProgram
from explorer.ir.tile_traversal import loads, statements, stored, threads_of

MOST_GROUPS = 65_535  # of a dispatch in one dimension: W3C, WebGPU, 3.6.2
POISON = {"f32": "bitcast<f32>(poison_bits)", "bool": "poison_bits != 0u", "f16": "f16(nan())"}
HEAD = """\
struct Places {{
{places}
}}
@group(0) @binding(0) var<storage, read> weights: array<u32>;
@group(0) @binding(1) var<storage, read_write> arena: array<u32>;
@group(0) @binding(2) var<uniform> places: Places;
"""
CHECKED_HEAD = """\
@group(0) @binding(3) var<storage, read_write> fault: array<u32>;
@group(0) @binding(4) var<storage, read> order: array<u32>;
var<private> poison_bits: u32 = 0x7fc0dead;
"""
MAIN = """\
@compute @workgroup_size({threads})
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>) {{
"""


@dataclass(frozen=True, slots=True)
class ShaderOptions:
    """Options of a shader's text.

    `features` are those of the adapter that it uses; with `subgroups`, `lanes` neighbouring threads
    are in one subgroup. `checked`: see the module.
    """

    features: frozenset[str] = frozenset()
    lanes: int = 0
    checked: bool = False


def in_workgroup_memory(p: TileProgram) -> tuple[Buffer, ...]:
    """Return the buffers that the threads of a block share."""
    return tuple(b for b in p.buffers if b.kind == "scratch" and b.level != REGISTER)


def in_storage(p: TileProgram) -> tuple[Buffer, ...]:
    """Return the tensors that are passed to a kernel."""
    return tuple(b for b in p.buffers if b.kind != "scratch")


def grid_of(p: TileProgram) -> int:
    """Return the number of workgroups."""
    return prod(int(g.count) for g in p.grid)


def dispatch_of(grid: int) -> tuple[int, int]:
    """Return the workgroups in both dimensions of a dispatch; some of the last row do nothing."""
    if grid <= MOST_GROUPS:
        return grid, 1
    rows = -(-grid // MOST_GROUPS)
    return -(-grid // rows), rows


def workgroup_memory_bytes(p: TileProgram) -> int:
    """Return the bytes of workgroup memory that a shader without features declares."""
    exchanges = any(isinstance(s, Shuffle) for s in statements(p.body))
    exchanged = 2 * threads_of(p.body) * WORD_BYTES if exchanges else 0
    return sum(map(workgroup_bytes, in_workgroup_memory(p))) + exchanged


def emit(p: TileProgram, title: str, options: ShaderOptions = ShaderOptions()) -> str:
    """Return the shader of a program; `title` is its first line, a comment."""
    threads = max(1, threads_of(p.body))
    e = Emitter(threads, options.features, options.lanes, _barrier(p))
    _begin_main(e, p, options)
    for s in statements(p.body):
        if isinstance(s, Shuffle):
            begin_shuffle(e, s)
    for s in p.body:
        statement(e, s)
    main = MAIN.format(threads=threads) + "\n".join(e.lines) + "\n}\n"
    tensors = in_storage(p)
    body = "\n".join((*_accessors(tensors, p, options), *_arrays(p, e, options), main))
    enabled = [f"enable {name};\n" for name in _enabled(options, body)]
    names = [f"  {b.name}: u32," for b in tensors] + (["  order: u32,"] if options.checked else [])
    head = HEAD.format(places="\n".join(names or ["  none: u32,"]))
    if options.checked:
        head += CHECKED_HEAD
    functions = declarations(body, native_declarations(options.features))
    return f"// {title}\n" + "".join(enabled) + head + (functions and f"{functions}\n") + body


def _enabled(options: ShaderOptions, body: str) -> Iterator[str]:
    """Yield the extensions that a shader needs."""
    if SHADER_F16 in options.features and re.search(r"\bf16\b|\bround_float16\b", body):
        yield "f16"
    if SUBGROUPS in options.features and "subgroupShuffleXor" in body:
        yield "subgroups"


def _barrier(p: TileProgram) -> str:
    """Return a Sync; it covers the arena if threads of a block read what others wrote there."""
    written = {f.buffer.name for s in statements(p.body) if (f := stored(s)) is not None}
    read = {f.buffer.name for s in statements(p.body) for f in loads(s)}
    storage = {b.name for b in in_storage(p)}
    both = "storageBarrier(); " if written & read & storage else ""
    return f"{both}workgroupBarrier();"


def _begin_main(e: Emitter, p: TileProgram, options: ShaderOptions) -> None:
    """Print the numbers of thread and block, registers, and poison."""
    grid = grid_of(p)
    columns, rows = dispatch_of(grid)
    number = "group.x" if rows == 1 else f"group.x + group.y * {columns}u"
    if options.checked:
        e.line(f"if ({number} >= {max(1, grid)}u) {{ return; }}")
        e.line(f"let block = i32(order[places.order + {number}]);")
        e.line(f"let thread = i32(order[places.order + {grid}u + lane]);")
    else:
        e.line(f"let block = i32({number});")
        e.line("let thread = i32(lane);")
        if columns * rows > grid:
            e.line(f"if (block >= {grid}) {{ return; }}")
    e.tasks(p.grid)
    for b in p.buffers:
        if b.level == REGISTER:
            for n in range(int(b.size)):
                type_ = value_type(b.dtype)
                poison = f" = {_poison(type_)}" if options.checked else ""
                e.line(f"var {b.name}_{n}: {type_}{poison};")
    if options.checked and in_workgroup_memory(p):
        for b in in_workgroup_memory(p):
            type_ = workgroup_type(b.dtype, options.features)
            e.counted("n", "i32(lane)", str(b.size), e.threads)
            e.line(f"{b.name}[n] = {_poison(type_)};")
            e.close(1)
        e.line("workgroupBarrier();")


def _poison(type_: str) -> str:
    return POISON.get(type_, f"{type_}(poison_bits)")


def _arrays(p: TileProgram, e: Emitter, options: ShaderOptions) -> Iterator[str]:
    """Yield the declarations of arrays in workgroup memory."""
    for b in in_workgroup_memory(p):
        type_ = workgroup_type(b.dtype, options.features)
        yield f"var<workgroup> {b.name}: array<{type_}, {b.size}>;"
    if e.exchanges:
        yield f"var<workgroup> {EXCHANGED}: array<u32, {2 * e.threads}>;"


def _accessors(tensors: Iterable[Buffer], p: TileProgram, options: ShaderOptions) -> Iterator[str]:
    """Yield a function that reads each tensor, and one that writes it."""
    written = {f.buffer.name for s in statements(p.body) if (f := stored(s)) is not None}
    read = {f.buffer.name for s in statements(p.body) for f in loads(s)}
    for n, b in enumerate(tensors):
        test = ""
        if options.checked:
            test = f"if (u32(i) >= {b.size}u) {{ fault[0] = {n + 1}u; }} "
        type_ = value_type(b.dtype)
        if b.name in read:
            element = packed_element(b) if b.kind == "constant" else _word(b)
            yield f"fn {b.name}(i: i32) -> {type_} {{ {test}{element} }}"
        if b.name in written:
            word = {"f32": "bitcast<u32>(value)", "bool": "select(0u, 1u, value)"}
            text = word.get(type_, "bitcast<u32>(value)" if type_ == "i32" else "value")
            store = f"arena[places.{b.name} + u32(i)] = {text};"
            yield f"fn set_{b.name}(i: i32, value: {type_}) {{ {test}{store} }}"


def _word(b: Buffer) -> str:
    """Return the statement that reads an element of the arena."""
    return f"return {_of_word(f'arena[places.{b.name} + u32(i)]', value_type(b.dtype))};"


def _of_word(word: str, type_: str) -> str:
    texts = {"bool": f"{word} != 0u", "u32": word}
    return texts.get(type_, f"bitcast<{type_}>({word})")


def packed_element(b: Buffer) -> str:
    """Return the statements that read an element of a tensor among the weights."""
    size, type_ = packed_bytes(b.dtype), value_type(b.dtype)
    if size == WORD_BYTES:
        return f"return {_of_word(f'weights[places.{b.name} + u32(i)]', type_)};"
    each = WORD_BYTES // size
    at = f"let at = places.{b.name} + u32(i); let word = weights[at / {each}u];"
    part = f"{8 * size}u * (at & {each - 1}u), {8 * size}u"
    match b.dtype:
        case "float16":
            return f"{at} return unpack2x16float(word)[at & 1u];"
        case "bfloat16":
            return f"{at} return bitcast<f32>((word >> (16u * (at & 1u))) << 16u);"
        case "bool":
            return f"{at} return extractBits(word, {part}) != 0u;"
    word = "bitcast<i32>(word)" if type_ == "i32" else "word"
    return f"{at} return extractBits({word}, {part});"
