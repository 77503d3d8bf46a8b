"""Import of an exported program: each node of its graph is translated by its ATen name.

%relu: "f32[4, 8]" = torch.ops.aten.relu.default(%x)   →   relu: float32[4, 8] = Relu(x)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from explorer.errors import Cancelled, IronworksError, UnsupportedOperator
from explorer.frontends.model import StateBuffer, symbol_environment, symbol_name
from explorer.frontends.python.trace import assemble_program, within_bounds
from explorer.frontends.python.tracing.annotations import match_cast, shape
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.bodies import own_results
from explorer.frontends.python.tracing.dims import plain_dim
from explorer.frontends.python.tracing.emit import traced
from explorer.frontends.python.tracing.frames import (
    FunctionFrame,
    Recorder,
    attributed_to,
    current_frame,
    tracing_into,
)
from explorer.frontends.torch.call import OperatorCall, dtype_name
from explorer.frontends.torch.functionalize import (
    NO_RESULT,
    SCALARS,
    SIZES,
    changed_in_graphs,
    find_control_translation,
    find_translation,
    graphs_in,
    in_place_translation,
    name_and_overload,
)
from explorer.frontends.torch.graphs import name_of
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, Shape, ShapeEnv, floor_div, simplify, symbol, sympy, total_of
from explorer.ir.dims import symbols_of as symbols_in
from explorer.ir.dtypes import ml_dtypes
from explorer.ir.program import Constant, Function, Program, SourceOp
from explorer.ir.types import Tensor
from explorer.ops.shape_rules import ImpliedBound

PLACEMENT_ARGUMENTS = (
    frozenset(  # arguments about a tensor's placement, which do not affect its value
        {
            *("dtype", "layout", "device", "pin_memory", "memory_format", "generator"),
            *("non_blocking", "requires_grad", "copy", "names", "out_dtype"),
        }
    )
)


def import_program(
    program: Any,
    names: Mapping[str, str],
    limits: Mapping[str, tuple[int, int | None]],
    name: str,
    *,
    trains: bool = False,
) -> tuple[Program, dict[str, StateBuffer]]:
    """Import a functional ExportedProgram; return the program and the buffers that it changes.

    The buffers are its last inputs and outputs. Dims are called by `names`. With `trains`, the
    program leaves buffers unchanged and marks values through which PyTorch passes no gradient.

    Raises:
        UnsupportedOperator: an operator, or a form of one, has no translation.
    """
    state: dict[str, StateBuffer] = {}

    def write(recorder: Recorder) -> Program:
        writer = _Translator(program, names, recorder, name, trains=trains)
        imported = writer.program()
        state.clear()
        state.update(writer.state(imported))
        return imported

    return within_bounds(write, symbol_environment(shapes_of(program, names), limits), name), state


def program_of_node(node: Any, values: Mapping[Any, Any]) -> tuple[Program, dict[str, np.ndarray]]:
    """Return one node as a program of its own, and its arguments in a run of PyTorch."""
    recorder = Recorder(ShapeEnv(), {})
    frame = FunctionFrame(recorder, recorder.fresh("main"))
    writer = _Translator(None, {}, recorder, node.name, values)
    feeds: dict[str, np.ndarray] = {}
    params = []
    with tracing_into(frame):
        for operand in node.all_input_nodes:
            value = values[operand]
            if hasattr(value, "dtype"):
                array = array_of(value)
                var = recorder.value(operand.name, Tensor(array.shape, dtype_name(value.dtype)))
                params.append(var)
                feeds[var.name] = array
                writer.values[operand] = TracedArray(var, frame)
            else:
                writer.values[operand] = value
        recorder.sources.append(SourceOp(node.name, name_of(node.target)))
        with attributed_to(node.name):
            outputs = writer.call(node)
            each = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            results = own_results(frame, [traced(v) for v in each if v is not None])
    names = tuple(f"{node.name}.{i}" for i in range(len(results)))
    main = Function("main", tuple(params), tuple(frame.body), results, names)
    return assemble_program(recorder, main, node.name), feeds


def symbols_of(program: Any, names: Mapping[str, str]) -> list[str]:
    """Return the names of the symbols in the inputs."""
    dims = (dim for shape in shapes_of(program, names) for dim in shape)
    return list(dict.fromkeys(name for dim in dims for name in sorted(symbols_in(dim))))


def shapes_of(program: Any, names: Mapping[str, str]) -> list[Shape]:
    """Return the shapes of the inputs; a composite dim is the sum of its symbols."""
    return [
        tuple(_dim(d, names) for d in getattr(node.meta.get("val"), "shape", ()))
        for node in program.graph.nodes
        if node.op == "placeholder"
    ]


def _dim(dim: Any, names: Mapping[str, str]) -> Dim:
    expr = getattr(getattr(dim, "node", None), "expr", None)
    if expr is None:
        return int(dim)
    symbols = sorted(map(str, expr.free_symbols))
    return total_of(symbol(symbol_name(names.get(s, s), "dim")) for s in symbols)


class _Translator:
    """Translator of a graph to a program."""

    def __init__(
        self,
        program: Any,
        names: Mapping[str, str],
        recorder: Recorder,
        name: str,
        traced_values: Mapping[Any, Any] | None = None,
        *,
        trains: bool = False,
    ) -> None:
        self.source, self.recorder, self.name, self.traced_values = (
            program,
            recorder,
            name,
            traced_values,
        )
        self.trains = trains
        self.buffers: dict[str, Var] = {}  # changed buffers, by PyTorch's names
        self.constants: dict[Any, tuple[Var, Any]] = {}  # and the tensors, by their memory
        self.dims = {n: symbol(symbol_name(w, "dim")) for n, w in names.items()}
        self.values: dict[Any, Any] = {}
        graphs = () if program is None else graphs_in(program.graph_module)
        self.changed = changed_in_graphs(g.graph for g in graphs)

    def program(self) -> Program:
        frame = FunctionFrame(self.recorder, self.recorder.fresh("main"))
        signature = self.source.graph_signature
        kinds = {s.arg.name: s for s in signature.input_specs}
        params: list[Var] = []
        outputs: list[Any] = []
        with tracing_into(frame):
            for node in self.source.graph.nodes:
                if node.op == "placeholder":
                    self.values[node] = self.placeholder(node, kinds[node.name], params, frame)
                elif node.op == "output":
                    outputs = self.outputs(node, signature)
                else:
                    self.write(node, self.source.graph_module)
            self.recorder.sources.append(SourceOp("result", "result"))
            with attributed_to("result"):
                results = own_results(frame, [traced(v) for _, v in outputs])
        names = tuple(n for n, _ in outputs)
        every = (*params, *self.buffers.values())
        main = Function("main", every, tuple(frame.body), results, _make_distinct(names))
        return assemble_program(self.recorder, main, self.name)

    def state(self, program: Program) -> dict[str, StateBuffer]:
        """Return the changed buffers, by the names of their inputs."""
        names = program.main.output_names[len(program.main.outputs) - len(self.buffers) :]
        return {
            var.name: StateBuffer(output, array_of(self.weight(target)).copy())
            for (target, var), output in zip(self.buffers.items(), names, strict=True)
        }

    # Inputs and outputs.

    def placeholder(self, node: Any, spec: Any, params: list[Var], frame: FunctionFrame) -> Any:
        kind = spec.kind.name
        value = node.meta.get("val")
        if kind == "BUFFER" and spec.target in self.changes():
            buffer = self.recorder.value(
                spec.target, Tensor(tuple(value.shape), dtype_name(value.dtype))
            )
            self.buffers[spec.target] = buffer
            return TracedArray(buffer, frame)
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            var = self.constant(spec.target, self.weight(spec.target))
            return TracedArray(var, frame)
        if kind == "TOKEN":
            return None
        if kind != "USER_INPUT" or type(spec.arg).__name__ == "ConstantArgument":
            return value
        if not hasattr(value, "dtype"):
            raise UnsupportedOperator(f"the input {node.name!r} is not a tensor", where=node.name)
        dims = tuple(self.dim(d) for d in value.shape)
        var = self.recorder.value(node.name, Tensor(dims, dtype_name(value.dtype)))
        params.append(var)
        return TracedArray(var, frame)

    def changes(self) -> set[str]:
        """Return PyTorch's names of the buffers that the program changes."""
        specs = () if self.trains else self.source.graph_signature.output_specs
        return {s.target for s in specs if s.kind.name == "BUFFER_MUTATION"}

    def weight(self, target: str) -> Any:
        state, constants = self.source.state_dict, self.source.constants
        return state[target] if target in state else constants[target]

    def constant(self, name: str, tensor: Any) -> Var:
        """Add a tensor as a constant, copied; tied weights share the constant of the first name."""
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        existing = self.constants.get(place) if tensor.data_ptr() else None
        if existing is not None:
            return existing[0]
        constant = Constant(array_of(tensor).copy())  # a copy, since PyTorch may continue training
        fresh = self.recorder.fresh(name)
        self.recorder.constants[fresh] = constant
        new_var = Var(fresh, constant.type)
        self.constants[place] = new_var, tensor
        return new_var

    def outputs(self, node: Any, signature: Any) -> list[tuple[str, Any]]:
        outputs, left = [], {}
        for value, spec in zip(node.args[0], signature.output_specs, strict=True):
            if spec.kind.name != "USER_OUTPUT":
                if spec.kind.name == "BUFFER_MUTATION":
                    left[spec.target] = self.resolve(value)
                if spec.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "TOKEN"):
                    continue
                raise UnsupportedOperator(f"an output is {spec.kind.name}", where=self.name)
            array = self.resolve(value)
            if array is not None:
                outputs.append((getattr(spec.arg, "name", "") or "output", array))
        return [*outputs, *((target, left[target]) for target in self.buffers)]

    def dim(self, value: Any) -> Dim:
        """Return a PyTorch dim in the program's symbols."""
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
        raise UnsupportedOperator(f"the dim {expr} is not a polynomial of symbols", where=self.name)

    # Operators.

    def write(self, node: Any, module: Any, within: str = "") -> None:
        """Translate a node; `within` is the prefix of the enclosing loops and branches."""
        if node.op == "get_attr":
            attribute = getattr(module, node.target)
            is_graph = hasattr(attribute, "graph")
            self.values[node] = (
                attribute if is_graph else self.stored_tensor(within + node.target, attribute)
            )
            return
        if node.op != "call_function":
            raise UnsupportedOperator(f"{node.name} is not an operator", where=node.name)
        self.recorder.sources.append(SourceOp(within + node.name, name_of(node.target)))
        with attributed_to(within + node.name):
            self.values[node] = self.call(node, within)
        if node in self.changed:
            self.values[self.changed[node]] = self.values[node]

    def stored_tensor(self, name: str, tensor: Any) -> TracedArray:
        """Return a tensor stored in a graph, as a constant."""
        return TracedArray(self.constant(name, tensor), current_frame())

    def graph(self, module: Any, args: Sequence[Any], within: str) -> list[Any]:
        """Translate the graph of a loop or a branch for its arguments, and return its results."""
        arguments = iter(args)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(arguments)
            elif node.op == "output":
                results = self.resolve(node.args[0])
                return list(results) if isinstance(results, (list, tuple)) else [results]
            else:
                self.write(node, module, within)
        return []

    def control(self, node: Any, write: Callable[..., Any], within: str) -> list[Any]:
        """Translate a loop or a branch."""
        counts: dict[int, int] = {}

        def run(module: Any, args: Sequence[Any]) -> list[Any]:
            turn = counts[id(module)] = counts.get(id(module), 0) + 1
            part = f"{len(counts)}.{turn}" if turn > 1 else f"{len(counts)}"
            return self.graph(module, args, f"{within}{node.name}.{part}.")

        return list(write(run, *self.resolve(node.args)))

    def call(self, node: Any, within: str = "") -> Any:
        target = node.target
        control = find_control_translation(target)
        if control is not None:
            return self.control(node, control, within)
        if target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        args, kwargs = self.resolve(node.args), self.resolve(dict(node.kwargs))
        if target in SCALARS:
            return SCALARS[target](*args)
        name, _ = name_and_overload(target)
        if getattr(target, "_name", "") == "with_effects":  # an ordered check, without a result
            name, _ = name_and_overload(node.args[1])
            return [None, None] if name in NO_RESULT else self.scalar(node, target, args)
        if name in NO_RESULT:
            return None
        if name in SIZES:
            return self.size(node, name, args)
        handler = in_place_translation(node) if node in self.changed else find_translation(target)
        if handler is None:
            return self.scalar(node, target, args)
        call = self.describe_call(node)
        try:
            results = handler(call, *_arguments(target, args, kwargs))
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
        return self.check_results(
            call, results, several=isinstance(self.traced_value(node), (tuple, list))
        )

    def describe_call(self, node: Any) -> OperatorCall:
        value = self.traced_value(node)
        results = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        used = {u.args[1] for u in node.users if u.target is operator.getitem and u.users}
        flat = import_module("torch.utils._pytree").tree_leaves((node.args, node.kwargs))
        arguments = tuple(self.traced_value(a) if hasattr(a, "meta") else a for a in flat)
        every = len(results) == 1 or any(u.target is not operator.getitem for u in node.users)
        read = frozenset(range(len(results)) if every else used)
        return OperatorCall(node.name, name_of(node.target), arguments, results, read, self.trains)

    def traced_value(self, node: Any) -> Any:
        """Return the value of a node in PyTorch's trace, or in a run."""
        values = self.traced_values or {}
        # Nodes of loops and branches have values in their metadata only.
        return values[node] if node in values else node.meta.get("val")

    def check_results(self, call: OperatorCall, results: Any, several: bool) -> Any:
        """Check an operator's results against PyTorch's dtypes and shapes."""
        values = list(results) if isinstance(results, (list, tuple)) else [results]
        if not several:
            values = values[:1]
        for i, (value, like) in enumerate(zip(values, call.results, strict=False)):
            if value is None or like is None or not hasattr(like, "dtype") or i not in call.read:
                continue
            array = traced(value)
            if array.type.element != call.dtype_of(i) or array.ndim != len(like.shape):
                _refuse_mismatch(call, array, like)
            for n, m in zip(array.shape, like.shape, strict=True):
                if isinstance(n, int) and isinstance(m, int) and n != m:
                    _refuse_mismatch(call, array, like)
            values[i] = array
        return values if several else values[0]

    def resolve(self, value: Any) -> Any:
        if hasattr(value, "op") and hasattr(value, "users"):
            return self.values[self.changed.get(value, value)]
        if isinstance(value, (list, tuple)):
            return (
                type(value)([self.resolve(v) for v in value])
                if type(value) in (list, tuple)
                else [self.resolve(v) for v in value]
            )
        if isinstance(value, dict):
            return {k: self.resolve(v) for k, v in value.items()}
        return value

    def size(self, node: Any, name: str, args: Sequence[Any]) -> Any:
        if name == "sym_size":
            return args[0].shape[args[1]]
        if name == "sym_numel":
            return args[0].size
        array = traced(args[0])
        if array.dtype.kind not in "iu":
            raise UnsupportedOperator(
                f"{node.name} is a number known only at run time", where=node.name
            )
        word = symbol_name(str(node.meta.get("val")), "n")
        return match_cast(array.astype("int64").reshape(1), shape(self.recorder.fresh(word)))[0]

    def scalar(self, node: Any, target: Any, args: Sequence[Any]) -> Any:
        """Translate PyTorch's functions of Python numbers."""
        torch = import_module("torch")
        arrays = import_module("explorer.frontends.python.arrays")
        if target is torch.sym_max:
            return arrays.maximum(*args)
        if target is torch.sym_min:
            return arrays.minimum(*args)
        if target in (torch.sym_int, torch.sym_float) and plain_dim(args[0]) is not None:
            return args[0]
        raise UnsupportedOperator(
            f"{name_of(target)} at {node.name!r} is not supported", where=node.name
        )


def _refuse_mismatch(call: OperatorCall, actual: TracedArray, expected: Any) -> NoReturn:
    call.refuse(f"gives {actual.type} where PyTorch has {expected.dtype} of {list(expected.shape)}")


def _arguments(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return positional arguments with PyTorch's defaults, without those about placement."""
    arguments: list[Any] = []
    for i, formal in enumerate(target._schema.arguments):
        if i < len(args):
            value = args[i]
        elif formal.name in kwargs:
            value = kwargs[formal.name]
        else:
            value = formal.default_value
        if formal.name not in PLACEMENT_ARGUMENTS:
            arguments.append(value)
    return arguments


def _make_distinct(names: Sequence[str]) -> tuple[str, ...]:
    distinct: list[str] = []
    for name in names:
        word, n = name, 1
        while word in distinct:
            n += 1
            word = f"{name}.{n}"
        distinct.append(word)
    return tuple(distinct)


def array_of(tensor: Any) -> np.ndarray:
    """Return the elements of a tensor, without a copy if it is contiguous."""
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
    array: np.ndarray = plain.view(bits).numpy().view(getattr(ml_dtypes, name))
    return array
