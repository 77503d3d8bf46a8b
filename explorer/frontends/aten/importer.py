"""An exported program in the language: each node of its graph by PyTorch's name of the operator.

%relu: "f32[4, 8]" = torch.ops.aten.relu.default(%x)   →   relu: float32[4, 8] = Relu(x)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from explorer.errors import Cancelled, IronworksError, UnsupportedOperator
from explorer.frontends.aten.bessel import BESSEL
from explorer.frontends.aten.call import Call, dtype_name
from explorer.frontends.aten.control import CONTROL_FLOW, graphs_in
from explorer.frontends.aten.elementwise import ELEMENTWISE
from explorer.frontends.aten.indexing import INDEXING
from explorer.frontends.aten.linalg import LINALG
from explorer.frontends.aten.networks import NETWORKS
from explorer.frontends.aten.polynomials import POLYNOMIALS
from explorer.frontends.aten.recurrent import RECURRENT
from explorer.frontends.aten.reductions import REDUCTIONS
from explorer.frontends.aten.shaping import SHAPING
from explorer.frontends.aten.special import SPECIAL
from explorer.frontends.aten.words import first_line, name_of
from explorer.frontends.model import State
from explorer.frontends.symbols import environment, symbol_name
from explorer.frontends.torch_bodies import check_states, prepared
from explorer.frontends.trace import finished, within_bounds
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.casts import match_cast, shape
from explorer.frontends.tracing.control.bodies import own_results
from explorer.frontends.tracing.dims import plain_dim
from explorer.frontends.tracing.frames import Frame, current_frame, under, writing
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.recorder import Recorder
from explorer.ir.calls import Var
from explorer.ir.dtypes import ml_dtypes
from explorer.ir.program import Constant, Function, Program, SourceOp
from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv, floor_div, simplify, symbol, total_of
from explorer.ir.shapes.dims import symbols_of as symbols_in
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import ImpliedBound

OPERATORS: Mapping[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **SHAPING,
    **REDUCTIONS,
    **INDEXING,
    **NETWORKS,
    **RECURRENT,
    **SPECIAL,
    **BESSEL,
    **POLYNOMIALS,
    **LINALG,
}
PLACES = frozenset(  # arguments that say where and how PyTorch makes a tensor, and nothing of it
    {
        *("dtype", "layout", "device", "pin_memory", "memory_format", "generator"),
        *("non_blocking", "requires_grad", "copy", "names", "out_dtype"),
    }
)
NOTES = frozenset(  # operators that compute nothing
    {
        *("_assert_async", "_assert_scalar", "_assert_tensor_metadata"),
        *("sym_constrain_range", "sym_constrain_range_for_size", "_functional_assert_async"),
        *("_functional_assert_scalar", "_print", "_linalg_check_errors"),
    }
)
SIZES = frozenset({"sym_size", "sym_numel", "item", "_local_scalar_dense"})
OTHERS = {  # operators beside ATen, and what they are called here
    "transformers::grouped_mm_fallback": "aten::_grouped_mm",
    "torch_nn::_linear_cross_entropy_batch_chunked": "aten::linear_cross_entropy",
    "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction": "aten::linear_cross_entropies",
}
UNCHANGING = frozenset({"detach_"})  # operators in place that leave all elements as they are
STATISTICS = {"batch_norm": (3, 5), "instance_norm": (3, 5)}  # what they change where they train


def import_program(
    program: Any,
    names: Mapping[str, str],
    limits: Mapping[str, tuple[int, int | None]],
    name: str,
    *,
    trains: bool = False,
) -> tuple[Program, dict[str, State]]:
    """The program of a functional ExportedProgram, its dims called by `names`, and the buffers that
    it changes: its last inputs and outputs. One that is to be differentiated (`trains`) leaves them
    as they are, and marks values that PyTorch takes no gradient through.

    Raises UnsupportedOperator where an operator, or a form of one, has no meaning here.
    """
    state: dict[str, State] = {}

    def write(recorder: Recorder) -> Program:
        writer = _Writer(program, names, recorder, name, trains=trains)
        found = writer.program()
        state.clear()
        state.update(writer.state(found))
        return found

    return within_bounds(write, environment(shapes_of(program, names), limits), name), state


def program_of_node(node: Any, values: Mapping[Any, Any]) -> tuple[Program, dict[str, np.ndarray]]:
    """One node as a program of its own, and what it is given in a run of PyTorch's."""
    recorder = Recorder(ShapeEnv(), {})
    frame = Frame(recorder, recorder.fresh("main"))
    writer = _Writer(None, {}, recorder, node.name, values)
    feeds: dict[str, np.ndarray] = {}
    params = []
    with writing(frame):
        for given in node.all_input_nodes:
            value = values[given]
            if hasattr(value, "dtype"):
                array = array_of(value)
                var = recorder.value(given.name, Tensor(array.shape, dtype_name(value.dtype)))
                params.append(var)
                feeds[var.name] = array
                writer.values[given] = TracedArray(var, frame)
            else:
                writer.values[given] = value
        recorder.sources.append(SourceOp(node.name, name_of(node.target)))
        with under(node.name):
            found = writer.call(node)
            each = found if isinstance(found, (list, tuple)) else [found]
            results = own_results(frame, [traced(v) for v in each if v is not None])
    names = tuple(f"{node.name}.{i}" for i in range(len(results)))
    main = Function("main", tuple(params), tuple(frame.body), results, names)
    return finished(recorder, main, node.name), feeds


# What PyTorch makes of a program first.


def operator_of(target: Any) -> Callable[..., Any] | None:
    """What stands for an overload of PyTorch's, None where nothing does."""
    name, overload = _name_and_overload(target)
    return OPERATORS.get(f"{name}.{overload}") or OPERATORS.get(name)


def control_of(target: Any) -> Callable[..., Any] | None:
    """What writes a loop or a branch of PyTorch's; None for other operators."""
    is_control = type(target).__module__.startswith("torch._higher_order_ops")
    return CONTROL_FLOW.get(getattr(target, "_name", "")) if is_control else None


def _name_and_overload(target: Any) -> tuple[str, str]:
    """`add` and `Tensor` of `aten::add.Tensor`; nothing of what is none of ATen's."""
    full = str(getattr(target, "name", lambda: "")())
    space, _, rest = OTHERS.get(full, full).partition("::")
    name, _, overload = rest.partition(".")
    return (name, overload or "default") if space == "aten" else ("", "")


def functional(program: Any, *, strict: bool = False) -> Any:
    """The program without operators that change their arguments, made of those known here as far as
    PyTorch can tell them by others. Changes of tensors that have one name stay, unless `strict`.

    Raises UnsupportedOperator where PyTorch cannot.
    """
    graphs = [g.graph for g in graphs_in(program.graph_module)]
    changed = {} if strict else _changed(graphs)
    nodes = [n for graph in graphs for n in graph.nodes]
    for node in nodes:
        check_states(node)
    if all(_is_plain(node) or node in changed for node in nodes):
        return program
    torch = import_module("torch")
    program = prepared(program)
    table = import_module("torch.export").default_decompositions()
    more = import_module("torch._decomp").decomposition_table
    unknown = {n.target for n in nodes if n.op == "call_function"}
    for target in unknown:
        if target in more and target not in table and operator_of(target) is None:
            table[target] = more[target]
    for target in list(table):
        if operator_of(target) is not None and not _decomposes(target):
            del table[target]
    try:
        with torch.no_grad():
            return program.run_decompositions(table)
    except Exception as error:  # its decompositions raise what their parts raise
        raise UnsupportedOperator(
            f"PyTorch cannot decompose this program: {first_line(error)}"
        ) from error


def changed_in_place(graph: Any) -> dict[Any, Any]:
    """Nodes that change a tensor of which there is no view, and which node made that tensor.

    y = x.exp(); y.add_(1); z = y * 2   →   {add_: y}
    """
    made: dict[Any, Any] = {}
    for node in graph.nodes:
        if _in_place(node) is not None:
            made[node] = made.get(node.args[0], node.args[0])
    refused = {made.get(v, v) for n in graph.nodes for v in _seen_through(n)}
    refused |= {v for v in made.values() if not _is_fresh(v)}
    return {n: v for n, v in made.items() if v not in refused}


def _changed(graphs: Iterable[Any]) -> dict[Any, Any]:
    """The same of several graphs."""
    return {node: made for graph in graphs for node, made in changed_in_place(graph).items()}


def _in_place(node: Any) -> Callable[..., Any] | None:
    """What stands for an operator whose only effect is on its first argument: `add` for `add_`."""
    name, overload = _name_and_overload(node.target)
    if node.op != "call_function" or not name.endswith("_") or name.endswith("__"):
        return None
    if name in UNCHANGING:
        return None
    changes = [a for a in node.target._schema.arguments if a.alias_info and a.alias_info.is_write]
    if len(changes) != 1 or changes[0] != node.target._schema.arguments[0]:
        return None
    return OPERATORS.get(f"{name[:-1]}.{overload}") or OPERATORS.get(name[:-1])


def _seen_through(node: Any) -> list[Any]:
    """The arguments that a node gives views of, or changes in a way that is not known here."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        reads = node.op != "call_function" or node.target is operator.getitem
        return [] if reads else list(node.all_input_nodes)
    named = [(a, node.args[i]) for i, a in enumerate(schema.arguments) if i < len(node.args)]
    named += [(a, node.kwargs[a.name]) for a in schema.arguments if a.name in node.kwargs]
    aliased = [v for a, v in named if a.alias_info is not None]
    if _in_place(node) is not None:
        aliased = aliased[1:]
    return [v for value in aliased for v in _nodes(value)]


def _nodes(value: Any) -> list[Any]:
    found = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in found if hasattr(v, "users")]


def _is_fresh(node: Any) -> bool:
    """Return True for a tensor that its operator makes, and no part of another one."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and not any(r.alias_info for r in schema.returns)


def _decomposes(target: Any) -> bool:
    """Whether PyTorch tells an operator by others although it is known: what it changes is seen
    only then.
    """
    return _name_and_overload(target)[0] in STATISTICS


def _is_plain(node: Any) -> bool:
    if node.op != "call_function":
        return node.op in ("placeholder", "output", "get_attr")
    if control_of(node.target) is not None:
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.target in SCALARS or node.target is operator.getitem
    name, _ = _name_and_overload(node.target)
    if name in STATISTICS and any(node.args[i] for i in STATISTICS[name][1:]):
        return False
    known = operator_of(node.target) is not None or name in NOTES or name in SIZES
    return known and (name in UNCHANGING or not schema.is_mutable)


def symbols_of(program: Any, names: Mapping[str, str]) -> list[str]:
    """The symbols in the inputs, as they are called here."""
    dims = (dim for shape in shapes_of(program, names) for dim in shape)
    return list(dict.fromkeys(name for dim in dims for name in sorted(symbols_in(dim))))


def shapes_of(program: Any, names: Mapping[str, str]) -> list[Shape]:
    """The shapes of the inputs; of a dim that is no plain symbol, the sum of those in it."""
    return [
        tuple(_dim(d, names) for d in getattr(node.meta.get("val"), "shape", ()))
        for node in program.graph.nodes
        if node.op == "placeholder"
    ]


def _dim(dim: Any, names: Mapping[str, str]) -> Dim:
    expr = getattr(getattr(dim, "node", None), "expr", None)
    if expr is None:
        return int(dim)
    found = sorted(map(str, expr.free_symbols))
    return total_of(symbol(symbol_name(names.get(s, s), "dim")) for s in found)


# Numbers of Python.


SCALARS: Mapping[Any, Callable[..., Any]] = {
    **{
        f: f
        for f in (
            *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
            *(operator.truediv, operator.pow, operator.neg, operator.eq, operator.ne),
            *(operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_),
        )
    },
    operator.not_: lambda a: not a,
    math.trunc: lambda a: a,
}


class _Writer:
    """A program being written from a graph."""

    def __init__(
        self,
        program: Any,
        names: Mapping[str, str],
        recorder: Recorder,
        name: str,
        known: Mapping[Any, Any] | None = None,
        *,
        trains: bool = False,
    ) -> None:
        self.source, self.recorder, self.name, self.known = program, recorder, name, known
        self.trains = trains
        self.held: dict[str, Var] = {}  # buffers that are changed, by PyTorch's names
        self.constants: dict[Any, tuple[Var, Any]] = {}  # and the tensors, by where these lie
        self.dims = {n: symbol(symbol_name(w, "dim")) for n, w in names.items()}
        self.values: dict[Any, Any] = {}
        graphs = () if program is None else graphs_in(program.graph_module)
        self.changed = _changed(g.graph for g in graphs)

    def program(self) -> Program:
        frame = Frame(self.recorder, self.recorder.fresh("main"))
        signature = self.source.graph_signature
        kinds = {s.arg.name: s for s in signature.input_specs}
        params: list[Var] = []
        outputs: list[Any] = []
        with writing(frame):
            for node in self.source.graph.nodes:
                if node.op == "placeholder":
                    self.values[node] = self.placeholder(node, kinds[node.name], params, frame)
                elif node.op == "output":
                    outputs = self.outputs(node, signature)
                else:
                    self.write(node, self.source.graph_module)
            self.recorder.sources.append(SourceOp("result", "result"))
            with under("result"):
                results = own_results(frame, [traced(v) for _, v in outputs])
        names = tuple(n for n, _ in outputs)
        every = (*params, *self.held.values())
        main = Function("main", every, tuple(frame.body), results, _distinct(names))
        return finished(self.recorder, main, self.name)

    def state(self, program: Program) -> dict[str, State]:
        """The buffers that are changed, by the names of the inputs that they are."""
        names = program.main.output_names[len(program.main.outputs) - len(self.held) :]
        return {
            var.name: State(output, array_of(self.weight(target)).copy())
            for (target, var), output in zip(self.held.items(), names, strict=True)
        }

    # Inputs and outputs.

    def placeholder(self, node: Any, spec: Any, params: list[Var], frame: Frame) -> Any:
        kind = spec.kind.name
        value = node.meta.get("val")
        if kind == "BUFFER" and spec.target in self.changes():
            found = self.recorder.value(
                spec.target, Tensor(tuple(value.shape), dtype_name(value.dtype))
            )
            self.held[spec.target] = found
            return TracedArray(found, frame)
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            var = self.constant(spec.target, self.weight(spec.target))
            return TracedArray(var, frame)
        if kind == "TOKEN":
            return None
        if kind != "USER_INPUT" or type(spec.arg).__name__ == "ConstantArgument":
            return value
        if not hasattr(value, "dtype"):
            raise UnsupportedOperator(f"the input {node.name!r} is no tensor", where=node.name)
        dims = tuple(self.dim(d) for d in value.shape)
        var = self.recorder.value(node.name, Tensor(dims, dtype_name(value.dtype)))
        params.append(var)
        return TracedArray(var, frame)

    def changes(self) -> set[str]:
        """The buffers that the program changes, by PyTorch's names."""
        specs = () if self.trains else self.source.graph_signature.output_specs
        return {s.target for s in specs if s.kind.name == "BUFFER_MUTATION"}

    def weight(self, target: str) -> Any:
        state, constants = self.source.state_dict, self.source.constants
        return state[target] if target in state else constants[target]

    def constant(self, name: str, tensor: Any) -> Var:
        """A tensor as it is now; one that has several names, as tied weights have, once, by the
        first of them.
        """
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        known = self.constants.get(place) if tensor.data_ptr() else None
        if known is not None:
            return known[0]
        held = Constant(array_of(tensor).copy())  # as they are now: PyTorch may go on training
        fresh = self.recorder.fresh(name)
        self.recorder.constants[fresh] = held
        found = Var(fresh, held.type)
        self.constants[place] = found, tensor
        return found

    def outputs(self, node: Any, signature: Any) -> list[tuple[str, Any]]:
        found, left = [], {}
        for value, spec in zip(node.args[0], signature.output_specs, strict=True):
            if spec.kind.name != "USER_OUTPUT":
                if spec.kind.name == "BUFFER_MUTATION":
                    left[spec.target] = self.read(value)
                if spec.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "TOKEN"):
                    continue
                raise UnsupportedOperator(f"an output is {spec.kind.name}", where=self.name)
            given = self.read(value)
            if given is not None:
                found.append((getattr(spec.arg, "name", "") or "output", given))
        return [*found, *((target, left[target]) for target in self.held)]

    def dim(self, value: Any) -> Dim:
        """A dim of PyTorch's in our symbols."""
        expr = getattr(getattr(value, "node", None), "expr", None)
        return int(value) if expr is None else self.expression(expr)

    def expression(self, expr: Any) -> Dim:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self.dims.get(str(expr), symbol(symbol_name(str(expr), "dim")))
        parts = [self.expression(a) for a in expr.args]
        match type(expr).__name__:
            case "Add":
                return simplify(sympy.Add(*parts))
            case "Mul":
                return simplify(sympy.Mul(*parts))
            case "Pow" if isinstance(parts[1], int) and parts[1] >= 0:
                return simplify(sympy.Pow(*parts))
            case "FloorDiv" | "CleanDiv" | "IntTrueDiv":
                return floor_div(parts[0], parts[1])
        raise UnsupportedOperator(f"the dim {expr} is no polynomial", where=self.name)

    # Operators.

    def write(self, node: Any, module: Any, within: str = "") -> None:
        """What a node of a graph gives; `within` are the loops and branches around it."""
        if node.op == "get_attr":
            held = getattr(module, node.target)
            is_graph = hasattr(held, "graph")
            self.values[node] = held if is_graph else self.made_here(within + node.target, held)
            return
        if node.op != "call_function":
            raise UnsupportedOperator(f"{node.name} is no operator", where=node.name)
        self.recorder.sources.append(SourceOp(within + node.name, name_of(node.target)))
        with under(within + node.name):
            self.values[node] = self.call(node, within)
        if node in self.changed:
            self.values[self.changed[node]] = self.values[node]

    def made_here(self, name: str, tensor: Any) -> TracedArray:
        """A tensor that a graph holds itself."""
        return TracedArray(self.constant(name, tensor), current_frame())

    def graph(self, module: Any, args: Sequence[Any], within: str) -> list[Any]:
        """What the graph of a loop or a branch gives for its arguments."""
        given = iter(args)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(given)
            elif node.op == "output":
                found = self.read(node.args[0])
                return list(found) if isinstance(found, (list, tuple)) else [found]
            else:
                self.write(node, module, within)
        return []

    def control(self, node: Any, write: Callable[..., Any], within: str) -> list[Any]:
        """What a loop or a branch gives."""
        counts: dict[int, int] = {}

        def run(module: Any, args: Sequence[Any]) -> list[Any]:
            turn = counts[id(module)] = counts.get(id(module), 0) + 1
            part = f"{len(counts)}.{turn}" if turn > 1 else f"{len(counts)}"
            return self.graph(module, args, f"{within}{node.name}.{part}.")

        return list(write(run, *self.read(node.args)))

    def call(self, node: Any, within: str = "") -> Any:
        target = node.target
        control = control_of(target)
        if control is not None:
            return self.control(node, control, within)
        if target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        args, kwargs = self.read(node.args), self.read(dict(node.kwargs))
        if target in SCALARS:
            return SCALARS[target](*args)
        name, _ = _name_and_overload(target)
        if getattr(target, "_name", "") == "with_effects":  # of a check: its order, and nothing
            name, _ = _name_and_overload(node.args[1])
            return [None, None] if name in NOTES else self.scalar(node, target, args)
        if name in NOTES:
            return None
        if name in SIZES:
            return self.size(node, name, args)
        handler = _in_place(node) if node in self.changed else operator_of(target)
        if handler is None:
            return self.scalar(node, target, args)
        call = self.site(node)
        try:
            found = handler(call, *_arguments(target, args, kwargs))
        except (Cancelled, ImpliedBound):
            raise
        except UnsupportedOperator as error:
            raise UnsupportedOperator(
                error.sentence
                if node.name in error.sentence
                else f"{call.op} at {node.name!r}: {error.sentence}",
                where=node.name,
            ) from error
        except (IronworksError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            words = error.sentence if isinstance(error, IronworksError) else str(error)
            raise UnsupportedOperator(
                f"{call.op} at {node.name!r}: {words}", where=node.name
            ) from error
        return self.settled(call, found, several=isinstance(self.seen(node), (tuple, list)))

    def site(self, node: Any) -> Call:
        value = self.seen(node)
        results = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        used = {u.args[1] for u in node.users if u.target is operator.getitem and u.users}
        flat = import_module("torch.utils._pytree").tree_leaves((node.args, node.kwargs))
        given = tuple(self.seen(a) if hasattr(a, "meta") else a for a in flat)
        every = len(results) == 1 or any(u.target is not operator.getitem for u in node.users)
        read = frozenset(range(len(results)) if every else used)
        return Call(node.name, name_of(node.target), given, results, read, self.trains)

    def seen(self, node: Any) -> Any:
        """What PyTorch traced a node as, or gave in a run."""
        known = self.known or {}
        return known[node] if node in known else node.meta.get("val")  # of a loop or a branch

    def settled(self, call: Call, found: Any, several: bool) -> Any:
        """What an operator gives, held against the dtypes and ranks that PyTorch has for it."""
        values = list(found) if isinstance(found, (list, tuple)) else [found]
        if not several:
            values = values[:1]
        for i, (value, like) in enumerate(zip(values, call.results, strict=False)):
            if value is None or like is None or not hasattr(like, "dtype") or i not in call.read:
                continue
            given = traced(value)
            if given.type.element != call.dtype_of(i) or given.ndim != len(like.shape):
                _differ(call, given, like)
            for n, m in zip(given.shape, like.shape, strict=True):
                if isinstance(n, int) and isinstance(m, int) and n != m:
                    _differ(call, given, like)
            values[i] = given
        return values if several else values[0]

    def read(self, value: Any) -> Any:
        if hasattr(value, "op") and hasattr(value, "users"):
            return self.values[self.changed.get(value, value)]
        if isinstance(value, (list, tuple)):
            return (
                type(value)([self.read(v) for v in value])
                if type(value) in (list, tuple)
                else [self.read(v) for v in value]
            )
        if isinstance(value, dict):
            return {k: self.read(v) for k, v in value.items()}
        return value

    def size(self, node: Any, name: str, args: Sequence[Any]) -> Any:
        if name == "sym_size":
            return args[0].shape[args[1]]
        if name == "sym_numel":
            return args[0].size
        given = traced(args[0])
        if given.dtype.kind not in "iu":
            raise UnsupportedOperator(
                f"{node.name} is a number that only a run knows", where=node.name
            )
        word = symbol_name(str(node.meta.get("val")), "n")
        return match_cast(given.astype("int64").reshape(1), shape(self.recorder.fresh(word)))[0]

    def scalar(self, node: Any, target: Any, args: Sequence[Any]) -> Any:
        """Functions of PyTorch's on numbers."""
        torch = import_module("torch")
        arrays = import_module("explorer.frontends.arrays")
        if target is torch.sym_max:
            return arrays.maximum(*args)
        if target is torch.sym_min:
            return arrays.minimum(*args)
        if target in (torch.sym_int, torch.sym_float) and plain_dim(args[0]) is not None:
            return args[0]
        raise UnsupportedOperator(
            f"{name_of(target)} at {node.name!r} has no operator here", where=node.name
        )


def _differ(call: Call, found: TracedArray, wanted: Any) -> NoReturn:
    call.refuse(f"gives {found.type} where PyTorch has {wanted.dtype} of {list(wanted.shape)}")


def _arguments(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Arguments by place, with PyTorch's defaults, without those that say where a tensor lies."""
    found: list[Any] = []
    for i, formal in enumerate(target._schema.arguments):
        if i < len(args):
            value = args[i]
        elif formal.name in kwargs:
            value = kwargs[formal.name]
        else:
            value = formal.default_value
        if formal.name not in PLACES:
            found.append(value)
    return found


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for name in names:
        word, n = name, 1
        while word in found:
            n += 1
            word = f"{name}.{n}"
        found.append(word)
    return tuple(found)


def array_of(tensor: Any) -> np.ndarray:
    """The elements of a tensor, where they lie if they lie dense."""
    torch = import_module("torch")
    plain = tensor.detach().cpu().contiguous()
    name = dtype_name(plain.dtype)
    if (
        name == "bool"
        or plain.dtype in (torch.float16, torch.float32, torch.float64)
        or not plain.dtype.is_floating_point
    ):
        return np.ascontiguousarray(plain.numpy()).reshape(tuple(plain.shape))
    bits = {1: torch.uint8, 2: torch.int16}[plain.element_size()]
    found: np.ndarray = plain.view(bits).numpy().view(getattr(ml_dtypes, name))
    return found
