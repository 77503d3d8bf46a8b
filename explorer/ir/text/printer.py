"""Printing of programs, bindings and kernels in one pass, linear in the program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from explorer.ir.affine import Affine, var
from explorer.ir.calls import (
    Attrs,
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    TensorSpec,
)
from explorer.ir.program import Binding, Function, Program
from explorer.ir.text.text_tokens import (
    print_affine,
    print_dim,
    print_name,
    print_shape,
    print_tiling,
    print_type,
    print_value,
)
from explorer.ir.types import Tensor

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
LEVEL = {"<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1, "+": 2, "-": 2, "*": 3, "/": 3}
UNARY, ATOM = 4, 5
IN, DEEPER = "  ", "    "


def print_program(program: Program, *, digests: bool = True) -> str:
    """Return the whole program as text.

    Without `digests` no constant is hashed, and the text cannot be parsed.
    """
    return "\n".join(_program(program, digests)) + "\n"


def _program(program: Program, digests: bool) -> Iterator[str]:
    yield f"program {print_name(program.name)} at {program.stage.name}"
    for s in program.env.symbols:
        high = "any" if s.high is None else s.high
        yield f"symbol {print_name(s.name)}: {s.low} .. {high} hint {s.hint}"
    for function in program.functions:
        yield ""
        yield from _function(function, program.constants)
    if program.constants:
        yield ""
    for name, constant in program.constants.items():
        digest = f' = "{constant.digest}"' if digests else ""
        yield f"constant @{print_name(name)}: {print_type(constant.type)}{digest}"
    if program.sources:
        yield ""
    for source in program.sources:
        detail = f" {print_value(source.detail)}" if source.detail else ""
        yield f"source {print_name(source.name)} {print_name(source.op)}{detail}"
    for name, reason in program.dropped:
        yield f"dropped {print_name(name)} {print_value(reason)}"


def _function(function: Function, constants: Collection[str]) -> Iterator[str]:
    params = ", ".join(_typed(p) for p in function.params)
    yield f"def {print_name(function.name)}({params}):"
    for binding in function.body:
        for line in binding_lines(binding, constants):
            yield IN + line
    bound = {v.name: v.type for v in (*function.params, *_bound(function))}
    outputs = [
        _value(v, constants)
        if bound.get(v.name, v.type) == v.type
        else f"{_value(v, constants)}: {print_type(v.type)}"  # the declared type, if it says more
        for v in function.outputs
    ]
    if function.output_names:
        outputs = [
            text if name == v.name else f"{text} as {print_name(name)}"
            for text, name, v in zip(outputs, function.output_names, function.outputs, strict=True)
        ]
    yield f"{IN}{'output' if function.output_names else 'return'} {', '.join(outputs)}"


def _bound(function: Function) -> Iterator[Var]:
    for binding in function.body:
        yield from binding.vars


def _typed(v: Var) -> str:
    return f"{print_name(v.name)}: {print_type(v.type)}"


def _value(v: Var | None, constants: Collection[str]) -> str:
    if v is None:
        return "_"
    return f"@{print_name(v.name)}" if v.name in constants else print_name(v.name)


def _origin(origin: frozenset[str]) -> str:
    return f"  # {', '.join(print_name(o) for o in sorted(origin))}" if origin else ""


def binding_lines(binding: Binding, constants: Collection[str] = ()) -> Iterator[str]:
    """Yield the line of a binding, and under it the loop nests of its kernel."""
    results = ", ".join(_typed(v) for v in binding.vars)
    yield f"{results} = {_call(binding, constants)}{_origin(binding.origin)}"
    if isinstance(binding.expr, KernelCall):
        input_types = {
            n: a.type for n, a in zip(binding.expr.kernel.inputs, binding.expr.args, strict=True)
        }
        kernel = binding.expr.kernel
        output_types = {n: v.type for n, v in zip(kernel.outputs, binding.vars, strict=True)}
        for line in _kernel_body(kernel, binding.origin, input_types | output_types):
            yield IN + line


def _call(binding: Binding, constants: Collection[str]) -> str:
    def values(args: tuple[Var | None, ...]) -> str:
        return ", ".join(_value(a, constants) for a in args)

    match binding.expr:
        case OpCall(op, args, attrs):
            return f"{print_name(op)}({_arguments(values(args), attrs)})"
        case KernelCall() as call:
            return _kernel_call(call, constants)
        case View(arg, offset):
            return (
                f"view {_value(arg, constants)}{'' if offset == 0 else f' at {print_dim(offset)}'}"
            )
        case LibraryCall(library, function, args, attrs):
            name = f"{print_name(library)} {print_name(function)}"
            return f"library {name}({_arguments(values(args), attrs)})"
        case FunctionCall(function, args):
            return f"call {print_name(function)}({values(args)})"
        case Gradient(function, args, wrt, seeds):
            by = ", ".join(map(str, wrt))
            of = f"{print_name(function)}({values(args)})"
            return f"gradient {of} by ({by})" + (f" seeds ({values(seeds)})" if seeds else "")
        case MatchCast(arg):
            return f"match {_value(arg, constants)}"
        case ShapeOf(dims, rank):
            return f"{'shape_of' if rank else 'dim_of'}({print_shape(dims)})"
        case Branch(cond, then, orelse, args):
            arms = f"then {print_name(then)} else {print_name(orelse)}"
            return f"if {_value(cond, constants)} {arms} of ({values(args)})"
        case Loop(body, trip, cond, state, args, scans, rows, padded):
            times = "" if trip is None else f" times {_value(trip, constants)}"
            going = "" if cond is None else f" while {_value(cond, constants)}"
            stacked = f" stacking {scans}" if scans else ""
            stacked += " padded" * padded
            stacked += " of " * bool(rows) + ", ".join(map(print_type, rows))
            of = f"{print_name(body)}({values(state)}; {values(args)})"
            return f"loop {of}{times}{going}{stacked}"


def _arguments(values: str, attrs: Attrs) -> str:
    named = [f"{print_name(n)}={print_value(v)}" for n, v in attrs]
    return ", ".join(([values] if values else []) + named)


# Kernels.


def _kernel_call(call: KernelCall, constants: Collection[str]) -> str:
    kernel = call.kernel
    args = ", ".join(
        f"{print_name(n)}={_value(a, constants)}"
        for n, a in zip(kernel.inputs, call.args, strict=True)
    )
    tiles = "".join(
        f" {word} {print_tiling(tiling)}"
        for word, tiling in (("tiled", call.tiling), ("or", call.efficient))
        if tiling is not None
    )
    usual = {n for n, a in zip(kernel.inputs, call.args, strict=True) if a.name in constants}
    constant_inputs = (
        "" if usual == kernel.constants else f" knowing ({', '.join(sorted(kernel.constants))})"
    )
    behind = f" after {_value(call.after, constants)}" if call.after is not None else ""
    head = f"kernel {print_name(kernel.name)}({args}){constant_inputs}"
    return f"{head}{_outputs(kernel)}{tiles}{behind}"


def _outputs(kernel: Kernel) -> str:
    """Return the outputs where they are several, and the inputs that are overwritten."""
    several = len(kernel.outputs) > 1
    outputs = f" giving ({', '.join(map(print_name, kernel.outputs))})" if several else ""
    pairs = [f"{print_name(i)} with {print_name(o)}" for o, i in kernel.updates]
    if not several:
        pairs = [print_name(i) for _, i in kernel.updates]
    return f"{outputs} updating {', '.join(pairs)}" if kernel.updates else outputs


def print_kernel(kernel: Kernel) -> str:
    """Return a kernel as text: its tensors, then its loop nests."""
    inputs = ", ".join(_spec(kernel.spec(n)) for n in kernel.inputs)
    outputs = ", ".join(_spec(kernel.spec(n)) for n in kernel.outputs)
    head = f"kernel {print_name(kernel.name)}({inputs}) -> {outputs}"
    return "\n".join([head, *(IN + line for line in _kernel_body(kernel, kernel.origin, None))])


def _spec(spec: TensorSpec) -> str:
    return f"{print_name(spec.name)}: {print_type(Tensor(spec.shape, spec.dtype))}"


def _kernel_body(
    kernel: Kernel, origin: frozenset[str], typed: Mapping[str, object] | None
) -> Iterator[str]:
    """Yield tensors that the call does not type, then computes.

    Computes over the same axes stand under one header.
    """
    outs = tuple(dict.fromkeys(c.out for c in kernel.computes))
    usual = (*kernel.inputs, *outs)
    if tuple(t.name for t in kernel.tensors) != usual:
        yield f"tensors {', '.join(print_name(t.name) for t in kernel.tensors)}"
    for spec in kernel.tensors:
        if typed is not None and typed.get(spec.name) != Tensor(spec.shape, spec.dtype):
            yield f"let {_spec(spec)}"
    last: tuple[Axis, ...] | None = None
    for compute in kernel.computes:
        if compute.axes != last:
            yield f"for {_axes(compute.axes)}:" if compute.axes else "once:"
        last = compute.axes
        own = "" if compute.origin == origin else _origin(compute.origin)
        yield f"{IN}{_compute(compute)}{own}"


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{print_name(a.name)} < {print_dim(a.extent)}" for a in axes)


def _compute(c: Compute) -> str:
    target = ", ".join(print_affine(i) for i in c.target)
    plain = bool(c.store) and c.store == tuple(var(a.name) for a in c.axes)
    over = f"{c.combiner}[{_axes(c.reduce)}] " if c.combiner else ""
    return f"{'store ' if plain else ''}{print_name(c.out)}[{target}] = {over}{print_expr(c.expr)}"


def print_expr(expr: Expr, level: int = 0) -> str:
    """Return a scalar expression with as few parentheses as its structure needs."""
    match expr:
        case Const():
            return _const(expr)
        case IndexValue(index):
            return f"index({print_affine(index)})"
        case Read(tensor, index, fill):
            at = ", ".join(
                print_affine(i) if isinstance(i, Affine) else f"{{{print_expr(i)}}}" for i in index
            )
            outside = "" if fill is None else f" else {fill!r}"
            return f"{print_name(tensor)}[{at}{outside}]"
        case Apply(op, (a, b)) if op in INFIX:
            mark = INFIX[op]
            own = LEVEL[mark]
            text = f"{print_expr(a, own)} {mark} {print_expr(b, own + 1)}"
            return f"({text})" if own < level else text
        case Apply("neg", (a,)) if not isinstance(a, Const):
            text = f"-{print_expr(a, UNARY)}"
            return f"({text})" if level > UNARY else text
        case Apply(op, args):
            return f"{op}({', '.join(print_expr(a) for a in args)})"


def _const(c: Const) -> str:
    value, dtype = c.value, c.dtype
    if isinstance(value, bool):
        text, own = ("true" if value else "false"), "bool"
    elif isinstance(value, int):
        text, own = (f"{value}.0", "float32") if dtype == "float32" else (str(value), "int64")
    elif isinstance(value, float):
        text, own = repr(value), "float32"
    else:
        return f"dim({print_dim(value)}, {dtype})"
    return text if own == dtype else f"{text}:{dtype}"
