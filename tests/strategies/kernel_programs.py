"""Random programs of kernels over a matrix and a row, with all that may stand between them."""

from __future__ import annotations

from explorer.ir.calls import Var
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Program
from tests.relax.kernel_programs import Body, n, tensor
from tests.strategies.choices import Choices, generator

X = Var("x", tensor(n, n))
ROW = Var("r", tensor(n))


def under_another_name(body: Body, a: Var) -> Var:
    """A match_cast defines a symbol, kernels that read nothing need it, another ends its scope."""
    rows = symbol(f"rows{len(body.bindings)}")
    body.env = ShapeEnv((*body.env.symbols, SymbolBound(rows.name, 0)))
    named = body.match_cast(a, tensor(rows, n))
    filled = body.map("neg", body.full(rows, n, value=2.0))
    return body.match_cast(body.zip("add", body.map("abs", named), filled), tensor(n, n))


@generator
def programs(c: Choices, most: int = 9) -> Program:
    """Matrices and vectors over n, with all that may stand between them."""
    body = Body()
    matrices, vectors = [X], [ROW]
    words = [
        "map", "map", "zip", "zip", "bias", "transpose", "total", "expand", "matmul", "softmax",
        "unit", "library", "cast", "symbol", "row",
    ]  # fmt: skip
    for _ in range(c.number(1, most)):
        a, b = c.one(matrices), c.one(matrices)
        v = c.one(vectors)
        match c.one(words):
            case "map":
                matrices.append(body.map(c.one(["abs", "neg", "tanh"]), a))
            case "zip":
                matrices.append(body.zip(c.one(["add", "max"]), a, b))
            case "bias":
                matrices.append(body.zip("add", a, v))
            case "transpose":
                matrices.append(body.transpose(a))
            case "total":
                vectors.append(body.total(a, c.one(["sum", "max"])))
            case "expand":
                matrices.append(body.expand(v, n))
            case "matmul":
                matrices.append(body.map("tanh", body.matmul(a, b)))
            case "softmax":
                matrices.append(body.softmax(a))
            case "unit":
                unit = body.map("abs", body.view(a, n, 1, n))
                matrices.append(body.view(unit, n, n))
            case "library":
                matrices.append(body.library(a))
            case "cast":
                matrices.append(body.match_cast(a, tensor(n, n)))
            case "symbol":
                matrices.append(under_another_name(body, a))
            case _:
                vectors.append(body.map("neg", v))
    made = [Var(b.vars[0].name, b.vars[0].type) for b in body.bindings]
    outputs = dict.fromkeys([made[-1], *c.some(made, 0, 2)])
    return body.program([X, ROW], *outputs)
