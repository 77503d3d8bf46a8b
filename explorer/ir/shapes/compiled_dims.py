"""Dims as plain Python arithmetic: written down once for a program, evaluated for each binding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Dim, Sizes

Evaluator: TypeAlias = Callable[[Sizes], tuple[int, ...]]


def compile_dims(dims: Iterable[Dim]) -> Evaluator:
    """A function that gives all dims under a binding; KeyError names a symbol that it lacks.

    The text is made of operators and of symbols by number, never of a name that a model chose.
    """
    given = tuple(dims)
    known = tuple([dim for dim in given if isinstance(dim, int)])
    if len(known) == len(given):
        return lambda sizes: known
    writer = _Writer()
    parts = [writer.text(dim) for dim in given]
    loads = [f"    {local} = sizes[_names[{n}]]" for n, local in enumerate(writer.names.values())]
    body = [*loads, f"    return ({', '.join(parts)}{',' * (len(parts) == 1)})"]
    space: dict[str, object] = {"_names": tuple(writer.names)}
    exec(compile("\n".join(["def evaluate(sizes):", *body]), "<dims>", "exec"), space)
    made = space["evaluate"]
    assert callable(made)
    return made


class _Writer:
    """Writes dims as text; `names` are the symbols met so far, with their local names."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def text(self, dim: Dim) -> str:
        """As `evaluate_dim` counts: a fraction is rounded down where it stands."""
        if isinstance(dim, int):
            return f"({int(dim)})"
        match dim:
            case sympy.Integer():
                return f"({int(dim)})"
            case sympy.Symbol():
                return self.names.setdefault(dim.name, f"n{len(self.names)}")
            case sympy.Add():
                return self.joined(" + ", dim.args)
            case sympy.Mul():
                return self.quotient(*sympy.fraction(dim))
            case sympy.Pow() if dim.exp.is_Integer and dim.exp >= 0:
                return f"({self.text(dim.base)} ** {int(dim.exp)})"
            case sympy.floor():
                return self.quotient(*sympy.fraction(sympy.together(dim.args[0])))
            case sympy.Max():
                return "max" + self.joined(", ", dim.args)
            case sympy.Min():
                return "min" + self.joined(", ", dim.args)
            case sympy.Mod():
                return self.joined(" % ", dim.args)
        raise ValueError(f"a dim may be built from + - * // max min mod; found {dim}")

    def quotient(self, top: sympy.Expr, bottom: sympy.Expr) -> str:
        """`top // bottom`, or the product that `top` is."""
        if bottom != 1:
            return f"({self.text(top)} // {self.text(bottom)})"
        return self.joined(" * ", top.args) if isinstance(top, sympy.Mul) else self.text(top)

    def joined(self, sign: str, args: Iterable[Dim]) -> str:
        return f"({sign.join(self.text(a) for a in args)})"
