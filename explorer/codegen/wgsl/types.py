"""Element types in WGSL: the type of values, and how elements lie in each memory.

WGSL has `f32`, `i32`, `u32` and `bool`. Smaller integers are computed in 32 bits and wrapped,
`float16` and `bfloat16` are computed in `f32` and rounded, 64-bit integers are computed in 32 bits
where their values fit (`explorer.codegen.wgsl.integers`).

- Arena: every element has a word of 4 bytes: the bits of an `f32` (also `float16` and `bfloat16`,
  rounded), a two's complement integer, or 0 and 1 for `bool`.
- Weights: elements of 1 and 2 bytes are packed, the first in the lowest bits of a word; 64-bit
  integers have a word.
- Workgroup memory: an element has 4 bytes; `float16` has 2 if the shader uses `shader-f16`.
"""

from __future__ import annotations

from explorer.ir.dtypes import ITEM_BYTES, SMALL_INTEGERS, DType, is_float, is_integer
from explorer.ir.kernel import Kernel
from explorer.ir.tile_program import Buffer

WORD_BYTES = 4  # of an element in the arena
WIDE_INTEGERS = ("int64", "uint64")
ROUNDED: tuple[DType, ...] = ("float16", "bfloat16")  # computed in f32
SHADER_F16, SUBGROUPS = "shader-f16", "subgroups"  # features of an adapter: W3C, WebGPU, 24


def value_type(dtype: DType) -> str:
    """Return the type of WGSL in which elements of a dtype are computed."""
    if dtype == "bool":
        return "bool"
    if is_float(dtype):
        return "f32"
    return "u32" if dtype.startswith("uint") else "i32"


def unprinted(dtype: DType) -> str:
    """Return why elements of a dtype are not printed, in a sentence's words; else ""."""
    if dtype == "float64":
        return "WGSL has no float64; convert the model to float32"
    if is_float(dtype) and dtype not in ("float32", *ROUNDED):
        return f"no conversion of {dtype} is printed in WGSL"
    if dtype != "bool" and not is_float(dtype) and not is_integer(dtype):
        return f"WGSL has no {dtype}"
    return ""


def narrow_bits(dtype: DType) -> int:
    """Return the bits to which an integer is wrapped; 0 for one of 32 bits or more."""
    if not is_integer(dtype):
        return 0
    bits = SMALL_INTEGERS.get(dtype, 8 * ITEM_BYTES[dtype])
    return bits if bits < 8 * WORD_BYTES else 0


def packed_bytes(dtype: DType) -> int:
    """Return the bytes of an element among the weights."""
    return min(WORD_BYTES, ITEM_BYTES[dtype])


def workgroup_type(dtype: DType, features: frozenset[str]) -> str:
    """Return the type of an element of an array in workgroup memory."""
    return "f16" if dtype == "float16" and SHADER_F16 in features else value_type(dtype)


def workgroup_bytes(b: Buffer) -> int:
    """Return the bytes of an array in workgroup memory, without `shader-f16`."""
    return WORD_BYTES * int(b.size)


def widening(kernel: Kernel) -> int:
    """Return how many times the bytes of a kernel's tensors grow in workgroup memory at most."""
    return max((WORD_BYTES // packed_bytes(t.dtype) for t in kernel.tensors), default=1)
