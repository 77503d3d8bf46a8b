"""What a Scan node says: which values it carries, which it slices, and how it stacks results."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator


class ScanForm:
    """The attributes of a Scan, checked against its body and the values it is given."""

    def __init__(self, node: onnx.NodeProto, body: onnx.GraphProto, name: str) -> None:
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
        found = numbers.get(key) or [0] * count
        if len(found) != count:
            raise BadModelFile(f"gives Scan at {self.name!r} {len(found)} {key} for {count} values")
        return found

    def moves(self, at: int) -> bool:
        """Whether results are stacked along another dim than the first."""
        return self.output_axes[at] != 0

    def is_turned(self, at: int) -> bool:
        """Whether results are not as a loop stacks them."""
        return self.moves(at) or bool(self.output_backwards[at])

    def loop_output(self, at: int, label: str) -> str:
        """What a result is called before it is turned."""
        return f"{label}.stacked{at}"

    def loop_outputs(self, outputs: Sequence[str], label: str) -> list[str]:
        """What the loop's results are called."""
        return [
            self.loop_output(at, label) if output and self.is_turned(at) else output
            for at, output in enumerate(outputs)
        ]

    def permutation(self, at: int) -> tuple[int, ...]:
        """The order of dims that moves the first to its place."""
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
        rest = list(range(1, rank))
        rest.insert(axis % rank, 0)
        return tuple(rest)


def of_one_example(
    node: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.NodeProto:
    """A Scan of version 8 as version 9 says it, for values without a batch dim."""
    found = onnx.helper.make_node("Scan", inputs, outputs)
    for attribute in node.attribute:
        kept = found.attribute.add()
        kept.CopyFrom(attribute)
        kept.name = {"directions": "scan_input_directions"}.get(attribute.name, attribute.name)
    return found


def _numbers(attribute: onnx.AttributeProto) -> list[int]:
    """The numbers of a list, which may be empty, or the one number."""
    return [attribute.i] if attribute.type == onnx.AttributeProto.INT else list(attribute.ints)
