"""Patterns that a library takes: BLAS, the onnx package, and registered ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from explorer.errors import BadOption
from explorer.ir.types import Tensor
from explorer.ops.reference.blas import DTYPES
from explorer.ops.reference.library_functions import Annotate, LibraryFunction, register_function
from explorer.relax.dispatch.pattern import Match, Op, op

Check = Callable[[Match], str]  # why a match is refused, or ""
Registered = TypeVar("Registered", bound=Callable[..., object])


def always(match: Match) -> str:
    """Accept every match."""
    return ""


@dataclass(frozen=True, slots=True)
class LibraryPattern:
    """Operators that become one call of `library.function`; a pattern of None is any operator."""

    library: str
    function: str
    pattern: Op | None
    check: Check = always
    annotation: Annotate | None = None

    @property
    def name(self) -> str:
        """The name in options."""
        return f"{self.library}.{self.function}" if self.function else self.library


def _floats(match: Match) -> str:
    dtypes = {a.type.dtype for a in match.args if a is not None and isinstance(a.type, Tensor)}
    if len(dtypes) == 1 and dtypes <= set(DTYPES):
        return ""
    return f"a BLAS computes {' and '.join(DTYPES)}, and this is {' and '.join(map(str, dtypes))}"


def _bias(match: Match) -> str:
    """Return why a product and an addition do not merge: the addend must not be larger."""
    why = _floats(match)
    product = match.inner[0].var.type
    if why or match.root.var.type == product:
        return why
    return "what is added makes the product larger, so it stays a step of its own"


BLAS = (
    LibraryPattern("blas", "matmul_add", op("Add", op("MatMul", "a", "b"), "c"), _bias),
    LibraryPattern("blas", "matmul", op("MatMul", "a", "b"), _floats),
    LibraryPattern("blas", "gemm", Op("Gemm"), _floats),
)

BUILT_IN = ("numpy", "onnx", "blas", "linalg", "shape")
_registered: dict[str, LibraryPattern] = {}


def library(
    name: str,
    *,
    pattern: Op | str,
    annotation: Annotate | None = None,
    check: Check = always,
) -> Callable[[Registered], Registered]:
    """Register a function over NumPy arrays as `library.function`, for a pattern of operators.

    It returns its result (a tuple of several), or writes into the array `out` if it has a parameter
    of that name; it then needs an annotation: from those of the arguments, tensors, to that of the
    result. Attributes of the operators reach keyword-only parameters of their names. A pattern may
    be an operator's name. `Options(relax=Options(dispatch=(name,)))` makes calls use it.

    Raises BadOption if the name, the pattern or the function does not fit.
    """
    library_name, dot, function = name.rpartition(".")
    if not (dot and library_name and function) or library_name in BUILT_IN:
        raise BadOption(
            f"a library function is named library.function, and not {name!r}",
            where=name,
            expected="mylib.gelu, in a library of your own",
            actual=name,
        )
    matched_op = Op(pattern) if isinstance(pattern, str) else pattern

    def register(run: Registered) -> Registered:
        register_function(LibraryFunction(library_name, function, run, annotation))
        _registered[name] = LibraryPattern(library_name, function, matched_op, check, annotation)
        return run

    return register


def patterns(names: tuple[str, ...]) -> tuple[LibraryPattern, ...]:
    """Return the patterns of libraries or functions by name, in order.

    Raises BadOption for an unknown name.
    """
    out: list[LibraryPattern] = []
    for name in names:
        selected = _named(name)
        if not selected:
            available = ", ".join(("blas", "onnx", "onnx.Softmax", *_registered))
            raise BadOption(
                f"no library and no library function is named {name!r}",
                where="relax.dispatch",
                expected=available,
                actual=name,
                try_="register it with @explorer.library first",
            )
        out += [p for p in selected if p not in out]
    return tuple(out)


def _named(name: str) -> list[LibraryPattern]:
    library_name, _, function = name.partition(".")
    if library_name == "onnx":
        return [LibraryPattern("onnx", function, Op(function) if function else None)]
    registered = [*BLAS, *_registered.values()]
    return [p for p in registered if name in (p.name, p.library)]
