"""Models as read by a frontend: a program at stage IMPORTED, and facts of its source.

The symbols of its dims have bounds, and hints, from which tiles and pictures start.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from explorer.cached_property import cached_property
from explorer.errors import BadModelFile, BoundError
from explorer.ir.dims import Shape, ShapeEnv, SymbolBound, symbols_of
from explorer.ir.program import Binding, Program, SourceOp
from explorer.ir.types import Annotation
from explorer.passes.fingerprint import program_key
from explorer.plain_text import counted, size
from explorer.printed import Printed

if TYPE_CHECKING:
    from explorer.quantization.quantization import Quantization


@dataclass(frozen=True)
class StateBuffer:
    """A buffer that a run changes: the output that holds its new value, and its initial value."""

    output: str
    first: np.ndarray = field(repr=False)


MOST_KINDS = 6  # kinds of operators that a summary lists; chosen


@dataclass(frozen=True, repr=False)
class Model(Printed):
    """A model as its author wrote it.

    `program` holds its operators; for a `python` model they are named after source lines. `state`
    maps inputs of the program to buffers that runs change. A complex input or output `z` is two
    values of the program, `z.real` and `z.imag`. `quantization` is that of `explorer.quantize`.
    """

    name: str
    path: str
    program: Program
    head: bytes = field(default=b"", repr=False)  # the file without its large tensors
    python: bool = False
    state: Mapping[str, StateBuffer] = field(default_factory=dict)
    complex_inputs: tuple[str, ...] = ()
    complex_outputs: tuple[str, ...] = ()
    quantization: Quantization | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return a summary: operators, inputs, outputs and bounds."""
        return "\n".join((self.first_line, *(f"  {line}" for line in self._lines())))

    @property
    def first_line(self) -> str:
        """The name, the number of operators, and the size of the weights."""
        constants = self.program.constants.values()
        weights = f"{size(sum(c.nbytes for c in constants))} of weights"
        return f"{self.name}: {counted(len(self.program.sources), 'operator')}, {weights}"

    def _lines(self) -> Iterator[str]:
        kinds = Counter(s.op for s in self.program.sources).most_common()
        named = ", ".join(f"{n:,} {kind}" for kind, n in kinds[:MOST_KINDS])
        others = len(kinds) - MOST_KINDS
        yield f"{named} and {counted(others, 'other kind')}" if others > 0 else named
        if self.quantization is not None:
            yield self.quantization.first_line
        yield from (f"input {name}: {annotation}" for name, annotation in self.inputs.items())
        yield from (f"state {name}" for name in self.state)
        if self.outputs:
            yield f"outputs: {', '.join(self.outputs)}"
        for s in self.program.env.symbols:
            yield f"{s.name}: {s.low} to {'any' if s.high is None else s.high}, planned as {s.hint}"

    @property
    def inputs(self) -> Mapping[str, Annotation]:
        """The annotation of each input in order, without the state."""
        return {p.name: p.type for p in self.program.main.params if p.name not in self.state}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs in order, without the state."""
        left = {s.output for s in self.state.values()}
        return tuple(n for n in self.program.main.output_names if n not in left)

    @cached_property
    def digest(self) -> str:
        """Hash the model's structure, bounds and every constant."""
        hasher = hashlib.blake2b(self.head, digest_size=16)
        if not self.head:  # not from a file: hash its operators
            hasher.update(program_key(replace(self.program, constants={})).encode())
        hasher.update(repr(self.program.env).encode())
        for name, constant in self.program.constants.items():
            hasher.update(f"{name}={constant.digest};".encode())
        return hasher.hexdigest()

    @cached_property
    def content(self) -> str:
        """Hash the computation; the text and positions of Python source lines are left out."""
        if not self.python:
            return f"{self.digest} {program_key(replace(self.program, constants={}))}"
        numbers = {s.name: f"source {n}" for n, s in enumerate(self.program.sources)}
        functions = tuple(
            replace(f, body=tuple(_rename_origins(b, numbers) for b in f.body))
            for f in self.program.functions
        )
        sources = tuple(SourceOp(numbers[s.name], s.op) for s in self.program.sources)
        bare = replace(self.program, functions=functions, sources=sources)
        return replace(self, program=bare, head=b"").digest


def _rename_origins(binding: Binding, numbers: Mapping[str, str]) -> Binding:
    return replace(binding, origin=frozenset(numbers.get(o, o) for o in binding.origin))


# Symbols.


Bounds = Mapping[str, "int | tuple[int, int | None]"]

Key = TypeVar("Key", bound=Hashable)

MOST_SYMBOLS = 128  # every shape may depend on all of them and is compared with others
ROWS, STEPS, PIXELS = 1, 128, 224  # hints: of examples, of a sequence, of an image's width
NAMED = {"batch": ROWS, "height": PIXELS, "width": PIXELS}
NAMED |= dict.fromkeys(("seq", "len", "time", "step"), STEPS)
UNNAMED = ("", "?")  # what exporters write for an unknown dim


def symbol_name(text: str, otherwise: str) -> str:
    """Return a model's name of a dim, made an identifier."""
    name = re.sub(r"\W", "_", text or otherwise, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"n_{name}"


def identifiers(texts: Mapping[Key, str]) -> dict[Key, str]:
    """Return a distinct identifier for each dim of a model, similar to its text."""
    names: dict[Key, str] = {}
    taken: set[str] = set()
    for key, text in texts.items():
        word = first = symbol_name(text, "dim")
        count = 1
        while word in taken:
            count += 1
            word = f"{first}_{count}"
        taken.add(word)
        names[key] = word
    return names


def symbol_environment(shapes: Iterable[Shape], bounds: Bounds | None) -> ShapeEnv:
    """Return bounds and hints of the symbols in the shapes of a model's inputs.

    A hint follows from a symbol's name, else from its position. Inference raises it where the model
    needs more.

    Raises:
        BoundError: a bound is empty, or names no symbol.
    """
    inputs = tuple(shapes)
    names = list(dict.fromkeys(n for s in inputs for d in s for n in sorted(symbols_of(d))))
    if len(names) > MOST_SYMBOLS:
        raise BadModelFile(
            f"has {len(names)} symbolic dims; at most {MOST_SYMBOLS} are supported",
            expected=f"at most {MOST_SYMBOLS}",
            try_="numbers in place of most of them",
        )
    requested = dict(bounds or {})
    for name in requested:
        if name not in names:
            raise BoundError(
                f"the model has no dim called {name!r}; it has {', '.join(names) or 'none'}",
                where=name,
                expected=", ".join(names),
            )
    return ShapeEnv(tuple(_bound(n, requested.get(n), inputs) for n in names))


def _bound(
    name: str, request: int | tuple[int, int | None] | None, inputs: Sequence[Shape]
) -> SymbolBound:
    low, high = (1, None) if request is None else _bound_ends(name, request)
    if low < 0 or (high is not None and high < low):
        raise BoundError(f"the bound {low} .. {high} of {name!r} is empty or negative", where=name)
    lower = name.lower()
    hint = next(
        (value for word, value in NAMED.items() if word in lower), _hint_by_position(name, inputs)
    )
    hint = max(hint, low)
    return SymbolBound(name, low, high, hint if high is None else min(hint, high))


def _hint_by_position(name: str, inputs: Sequence[Shape]) -> int:
    """Return the hint of a symbol whose name says nothing.

    A symbol that is the first dim of every shape counts examples. Elsewhere, in shapes of four or
    more dims, it is an image's width or height.
    """
    places = [(n, len(s)) for s in inputs for n, d in enumerate(s) if name in symbols_of(d)]
    if all(n == 0 and rank > 1 for n, rank in places):
        return ROWS
    return PIXELS if all(rank > 3 for _, rank in places) else STEPS


def _bound_ends(name: str, request: object) -> tuple[int, int | None]:
    match request:
        case int():
            return request, request
        case (int(low), int() | None as high) if isinstance(request, tuple):
            return low, high
    raise BoundError(
        f"the bound of {name!r} must be a number or a pair (low, high), found {request!r}",
        where=name,
        expected="a number or (low, high)",
        actual=request,
    )
