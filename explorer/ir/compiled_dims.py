"""Dims compiled to plain Python arithmetic, once for a program, evaluated for each binding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from explorer.ir.dims import Dim, Sizes, sympy

Evaluator: TypeAlias = Callable[[Sizes], tuple[int, ...]]


def compile_dims(dims: Iterable[Dim]) -> Evaluator:
    """Return a function that evaluates all dims under a binding; KeyError names a missing symbol.

    The generated text has operators and numbered symbols, never a name from the model.
    """
    all_dims = tuple(dims)
    numbers = tuple([dim for dim in all_dims if isinstance(dim, int)])
    if len(numbers) == len(all_dims):
        return lambda sizes: numbers
    writer = _Writer()
    parts = [writer.text(dim) for dim in all_dims]
    loads = [f"    {local} = sizes[_names[{n}]]" for n, local in enumerate(writer.names.values())]
    body = [*loads, f"    return ({', '.join(parts)}{',' * (len(parts) == 1)})"]
    space: dict[str, object] = {"_names": tuple(writer.names)}
    exec(compile("\n".join(["def evaluate(sizes):", *body]), "<dims>", "exec"), space)
    evaluate = space["evaluate"]
    assert callable(evaluate)
    return evaluate


class _Writer:
    """A writer of dims as text; `names` maps the symbols met so far to local names."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def text(self, dim: Dim) -> str:
        """Return a dim as text, with fractions rounded down in place as in `evaluate_dim`."""
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
        """Return `top // bottom`, or the product `top` if `bottom` is 1."""
        if bottom != 1:
            return f"({self.text(top)} // {self.text(bottom)})"
        return self.joined(" * ", top.args) if isinstance(top, sympy.Mul) else self.text(top)

    def joined(self, sign: str, args: Iterable[Dim]) -> str:
        return f"({sign.join(self.text(a) for a in args)})"
