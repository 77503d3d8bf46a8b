"""A page's own programs: a model and its variants for browsers, with inputs and right answers.

Everything is one compressed text that the page opens with `packed.js`: a head as JSON, then bytes.
"""

from __future__ import annotations

import gzip
import json
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.codegen.cpu.cross import cross_compile
from explorer.codegen.wasm import WasmModule, link_wasm
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption, IronworksError
from explorer.ir.dims import Sizes
from explorer.plain_text import size
from explorer.portable.program import PortableProgram
from explorer.portable.webgpu import WebGpuProgram
from widgets.live.dense_text import dense_text
from widgets.live.recorded import Answers, record_answers
from widgets.live.variants import (
    DEFAULT,
    KNOBS,
    OWN,
    Variant,
    check_knobs,
    compile_for_browser,
    variants,
)
from widgets.live.weights import WeightStore
from widgets.model.brick_wall import data as wall_rows
from widgets.model.house import House, fixed_parts, read
from widgets.rammer.wall_slices import Source, pack_wall

MOST_BYTES = 64 << 20  # of weights, inputs and answers in a page; chosen
MOST_NEW_SHARE, MOST_NEW_BYTES = 0.1, 256 << 10  # that a variant may add to the weights; chosen
WALL_BYTES = 60_000
WALL_PARTS = ("hatches", "causes")


@dataclass(frozen=True, slots=True)
class LivePage:
    """Compressed programs of a page; `refusal` says why there are none.

    `variants` are their names, the model's own first; `left_out` are sentences about others.
    """

    packed: bytes = field(default=b"", repr=False)
    variants: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def base64(self) -> str:
        """Text for any script."""
        return b64encode(self.packed).decode()

    @property
    def dense(self) -> str:
        """Text for a `<script>` of a page in UTF-8, an eighth shorter."""
        return dense_text(self.packed)


def live_page(
    c: Compilation,
    sizes: Sizes | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    names: Sequence[str] = DEFAULT,
    say: Callable[[str], None] = lambda text: None,
) -> LivePage:
    """Compile a model for browsers, with variants, and record inputs and right answers.

    Args:
        c: A compilation for any device; its answers are recorded if it runs on this machine.
        sizes: A size for each symbol; by default those of `c.hint`.
        inputs: Inputs by name; by default random ones.
        names: Variants, names of `KNOBS`.
        say: Called with what is compiled next.

    Raises:
        BadOption: There is no such variant.
    """
    names = check_knobs(names)
    bound = {**c.hint, **(sizes or {})}
    try:
        say(f"{c.model.name} for a browser")
        first = compile_for_browser(c, bound)
        _check_size(first.program)
        arrays = c.named(dict(inputs) if inputs is not None else _short(c.random_inputs(bound)))
        answers = record_answers(c, first, arrays, bound)
    except IronworksError as problem:
        return LivePage(refusal=f"Nothing of this page runs in a browser: {problem.sentence}.")
    return _Packer(c, bound, first, arrays, answers).packed(names, say)


def _check_size(program: PortableProgram | WebGpuProgram) -> None:
    """Raise BadOption if a program is too large for a page."""
    tensors = sum(t.bytes for t in (*program.inputs, *program.outputs))
    if len(program.weights) + tensors > MOST_BYTES:
        raise BadOption(
            f"{program.name} has {size(len(program.weights))} of weights and {size(tensors)} of "
            f"inputs and outputs, and a page holds at most {size(MOST_BYTES)}",
            where=program.name,
        )


def _module(program: PortableProgram) -> WasmModule:
    """Return the kernels of a program as one module."""
    return link_wasm([cross_compile(k.source, program.isa).code for k in program.kernels])


def _by_significance(data: bytearray) -> bytes:
    """Return the first bytes of all 32-bit words, then the second ones: floats compress better."""
    words = np.frombuffer(data + bytes(-len(data) % 4), np.uint8).reshape(-1, 4)
    return np.ascontiguousarray(words.T).tobytes()


def _short(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return random inputs with few digits, which compress well: multiples of 1/64."""
    return {
        name: (np.round(array * 64) / 64).astype(array.dtype)
        if np.issubdtype(array.dtype, np.floating)
        else array
        for name, array in inputs.items()
    }


class _Packer:
    """The bytes and the head of a page's programs."""

    def __init__(
        self,
        c: Compilation,
        sizes: Sizes,
        first: Variant,
        inputs: Mapping[str, np.ndarray],
        answers: Answers,
    ) -> None:
        self.c, self.sizes, self.first, self.answers = c, sizes, first, answers
        self.inputs = inputs
        self.store = WeightStore()
        self.data = bytearray()
        self.blobs: list[Any] = []
        self.rows: list[dict[str, Any]] = []

    def packed(self, names: Sequence[str], say: Callable[[str], None]) -> LivePage:
        left_out: list[str] = []
        program = self.first.program
        direct = self._without_winograd()
        self.store.add_filters(self.first.compilation, direct)
        inputs = [self.blob(self.inputs[t.name]) for t in program.inputs]
        recorded = [
            {
                "bytes": self.blob(self.answers.outputs[t.name]),
                "tolerance": self.answers.tolerances[t.name],
            }
            for t in program.outputs
        ]
        self.variant(self.first, recorded)
        weights = max(MOST_NEW_BYTES, int(MOST_NEW_SHARE * len(self.store.data)))
        for variant in variants(self.first, self.sizes, names, say):
            if isinstance(variant, str):
                left_out.append(variant)
                continue
            self.store.add_filters(variant.compilation, direct)
            new = self.store.new_bytes(variant.program)
            if new > weights:
                left_out.append(f"{variant.name}: its weights would add {size(new)} to this page.")
                continue
            try:
                self.variant(variant, recorded)
            except IronworksError as problem:
                left_out.append(f"{variant.name}: {problem.sentence}.")
        parts = fixed_parts()
        head = {
            "store": self.blob(bytes(self.store.data)),
            "filters": self.store.filters,
            "computed": self.store.computed_bytes,
            "blobs": self.blobs,
            "inputs": inputs,
            "variants": self.rows,
            "left_out": left_out,
            "words": self.words(),
            "parts": {name: parts[name] for name in WALL_PARTS},
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        head_bytes = struct.pack("<I", len(text)) + text
        packed = head_bytes + bytes(-len(head_bytes) % 8) + _by_significance(self.data)
        return LivePage(
            gzip.compress(packed, 9, mtime=0),
            tuple(row["name"] for row in self.rows),
            tuple(left_out),
        )

    def _without_winograd(self) -> Compilation:
        """Return the first program with direct convolutions: its weights are plain."""
        compiled = self.first.compilation
        convolution = KNOBS["convolution"].change(compiled.options)
        return compiled.with_options(**convolution)

    def blob(self, content: bytes | np.ndarray) -> int:
        """Append bytes; return the number of the blob, [place, bytes]."""
        array = content if isinstance(content, bytes) else np.ascontiguousarray(content).tobytes()
        self.data.extend(bytes(-len(self.data) % 8))
        self.blobs.append([len(self.data), len(array)])
        self.data.extend(array)
        return len(self.blobs) - 1

    def variant(self, variant: Variant, recorded: Sequence[Mapping[str, Any]]) -> None:
        """Append a program; the first one, and that of a GPU, with its planned wall."""
        program = variant.program
        code = {} if isinstance(program, WebGpuProgram) else self.code(program)
        wall = self.wall(variant.compilation) if not code or variant.name == OWN else {}
        pieces = self.store.add(program)
        self.blobs.append({"bytes": len(program.weights), "pieces": pieces})
        self.rows.append(
            {
                "name": variant.name,
                "sentence": variant.sentence,
                "program": program.to_dict(),
                "weights": len(self.blobs) - 1,
                "recorded": recorded,
                **code,
                **wall,
            }
        )

    def code(self, program: PortableProgram) -> dict[str, int]:
        """Append the module of a program."""
        module = _module(program)
        return {
            "code": self.blob(module.code),
            "stack": module.data_at,
            "reserved": module.data_end,
            "limits": module.limits_at,
        }

    def words(self) -> list[str]:
        """Return the sentences about what runs."""
        first, program = self.first, self.first.program
        bound = ", ".join(f"{name} = {value:,}" for name, value in program.sizes)
        weights = f"{size(len(program.weights))} of weights"
        same = first.compilation.device.name == self.c.device.name
        origin = "" if same else f"; the rest of this page is about {self.c.device.name}"
        return [
            f"{self.c.model.name} was compiled for {first.compilation.device.name}, one thread"
            f"{f', {bound}' if bound else ''}: {weights}{origin}.",
            f"Inputs and right answers were recorded, the answers by {self.answers.source}. "
            f"{self.answers.rule}",
        ]

    def wall(self, compiled: Compilation) -> dict[str, Any]:
        """Return a planned wall and its calls."""
        house: House = read(compiled)
        rows = wall_rows(compiled.planned_wall(dict(self.sizes)), house.calls)
        head, packed = pack_wall(Source(rows), WALL_BYTES)
        return {
            "calls": [
                [call.name, call.family, call.label, house.other_names(call.name)]
                for call in rows.calls
            ],
            "wall": {"head": head, "bytes": self.blob(packed)},
        }
