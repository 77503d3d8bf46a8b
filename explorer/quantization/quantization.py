"""How the layers of a model were quantized: bits, bytes and errors, a row each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from explorer.plain_text import counted, size, table
from explorer.printed import Printed

FLOAT = "float32"


@dataclass(frozen=True, slots=True)
class QuantizedLayer:
    """A product with a constant matrix: `weight` [inputs, outputs], read by `operator`.

    `block` elements share a scale, and a zero point unless they are `symmetric`; layers in float32
    have neither. `weight_error` is the Frobenius norm of the error of the weights over theirs.
    `output_error` is the same of the product, for the float model's operands; None if no inputs
    were given, or the product is inside of a loop or a branch.
    """

    weight: str
    operator: str
    inputs: int
    outputs: int
    kind: str
    block: int | None
    symmetric: bool | None
    bytes_before: int
    bytes_after: int
    weight_error: float
    output_error: float | None = None


@dataclass(frozen=True, repr=False)
class Quantization(Printed):
    """The layers of a quantized model, and the bytes of all constants before and after."""

    layers: tuple[QuantizedLayer, ...]
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        """Return a table, a line for each layer."""
        return "\n".join((self.first_line, self._table()))

    @property
    def first_line(self) -> str:
        """The number of products of each kind, and the bytes."""
        kinds = Counter(layer.kind for layer in self.layers)
        counts = ", ".join(f"{counted(n, 'product')} in {kind}" for kind, n in kinds.items())
        return f"{counts}: {size(self.bytes_before)} of weights become {size(self.bytes_after)}"

    def rows(self) -> list[dict[str, object]]:
        """Return a dict for each layer."""
        return [asdict(layer) for layer in self.layers]

    def _table(self) -> str:
        has_outputs = any(layer.output_error is not None for layer in self.layers)
        head = [
            "weight",
            ">inputs",
            ">outputs",
            "kind",
            "blocks",
            ">before",
            ">after",
            ">weights' error",
        ]
        head += [">output's error"] if has_outputs else []
        return table(head, (tuple(self._cells(layer, has_outputs)) for layer in self.layers))

    def _cells(self, layer: QuantizedLayer, has_outputs: bool) -> Iterator[str]:
        yield layer.weight
        yield from (f"{layer.inputs:,}", f"{layer.outputs:,}", layer.kind, _blocks(layer))
        yield from (size(layer.bytes_before), size(layer.bytes_after))
        yield _error(layer.weight_error)
        if has_outputs:
            yield _error(layer.output_error)


def _blocks(layer: QuantizedLayer) -> str:
    return "" if layer.block is None else f"{layer.block}{'' if layer.symmetric else ', zeros'}"


def _error(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.2e}" if share else "0"
