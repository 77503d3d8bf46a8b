"""The form of a Scan node: carried values, sliced inputs, and stacked outputs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator


class ScanForm:
    """The attributes of a Scan, checked against its body and its arguments."""

    def __init__(self, node: onnx.NodeProto, body: onnx.GraphProto, name: str) -> None:
        """Read the attributes; raise BadModelFile if they do not fit the body."""
        self.name, self.body = name, body
        numbers = {a.name: _numbers(a) for a in node.attribute if a.name != "body"}
        inputs = numbers.get("num_scan_inputs", [0])[0]
        self.states = len(node.input) - inputs
        outputs = len(body.output) - self.states
        fits = len(body.input) == len(node.input) and len(node.output) <= len(body.output)
        if inputs < 1 or self.states < 0 or outputs < 0 or not fits:
            raise BadModelFile(f"holds Scan at {name!r} whose body does not fit its values")
        if not all(node.input):
            raise BadModelFile(f"leaves out an input of Scan at {name!r}")
        self.input_axes = self._each(numbers, "scan_input_axes", inputs)
        self.output_axes = self._each(numbers, "scan_output_axes", outputs)
        self.input_backwards = self._each(numbers, "scan_input_directions", inputs)
        self.output_backwards = self._each(numbers, "scan_output_directions", outputs)

    def _each(self, numbers: dict[str, list[int]], key: str, count: int) -> Sequence[int]:
        numbers_of_values = numbers.get(key) or [0] * count
        if len(numbers_of_values) != count:
            raise BadModelFile(
                f"gives Scan at {self.name!r} {len(numbers_of_values)} {key} for {count} values"
            )
        return numbers_of_values

    def moves(self, at: int) -> bool:
        """Return True if an output is stacked along another dim than the first."""
        return self.output_axes[at] != 0

    def is_turned(self, at: int) -> bool:
        """Return True if an output's axis or direction differs from that of a loop."""
        return self.moves(at) or bool(self.output_backwards[at])

    def loop_output(self, at: int, label: str) -> str:
        """Return the name of an output as stacked by the loop."""
        return f"{label}.stacked{at}"

    def loop_outputs(self, outputs: Sequence[str], label: str) -> list[str]:
        """Return the names of the loop's results."""
        return [
            self.loop_output(at, label) if output and self.is_turned(at) else output
            for at, output in enumerate(outputs)
        ]

    def permutation(self, at: int) -> tuple[int, ...]:
        """Return the permutation that moves the first dim to the output axis."""
        kind = self.body.output[self.states + at].type.tensor_type
        if not kind.HasField("shape"):
            raise UnsupportedOperator(
                f"Scan at {self.name!r} stacks values of unknown rank along an inner dim",
                where=self.name,
            )
        rank = len(kind.shape.dim) + 1
        axis = self.output_axes[at]
        if not -rank <= axis < rank:
            raise BadModelFile(f"holds Scan at {self.name!r} with the axis {axis} of {rank} dims")
        order = list(range(1, rank))
        order.insert(axis % rank, 0)
        return tuple(order)


def without_batch(
    node: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.NodeProto:
    """Return a Scan of version 8 as one of version 9, for values without a batch dim."""
    scan = onnx.helper.make_node("Scan", inputs, outputs)
    for attribute in node.attribute:
        copy = scan.attribute.add()
        copy.CopyFrom(attribute)
        copy.name = {"directions": "scan_input_directions"}.get(attribute.name, attribute.name)
    return scan


def _numbers(attribute: onnx.AttributeProto) -> list[int]:
    """Return the numbers of a list, which may be empty, or of a single number."""
    return [attribute.i] if attribute.type == onnx.AttributeProto.INT else list(attribute.ints)
