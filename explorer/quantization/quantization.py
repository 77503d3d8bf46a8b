"""How the layers of a model were quantized: bits, bytes and errors, a row each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from explorer.plain_text import size, table
from explorer.printed import Printed
from explorer.quantization.low_bit_matrix import LowBitFormat

FLOAT = "float32"


@dataclass(frozen=True, slots=True)
class QuantizedLayer:
    """A product with a constant matrix: `weight` [inputs, outputs], read by `operator`.

    `weight_error` is the Frobenius norm of the weights' error over that of the weights.
    `output_error` is the same of the product of the float model's inputs, None if no inputs were
    given or the product is inside of a loop or a branch. Layers that stay in float32 have no block.
    """

    weight: str
    operator: str
    inputs: int
    outputs: int
    kind: str
    block: int | None
    bytes_before: int
    bytes_after: int
    weight_error: float
    output_error: float | None = None


@dataclass(frozen=True, repr=False)
class Quantization(Printed):
    """The layers of a quantized model, and the bytes of all constants before and after."""

    form: LowBitFormat
    layers: tuple[QuantizedLayer, ...]
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        """Return a table, a line for each layer."""
        return "\n".join((self.first_line, self._table()))

    @property
    def first_line(self) -> str:
        """The format, the number of products, and the bytes."""
        low = sum(layer.kind != FLOAT for layer in self.layers)
        of = "" if low == len(self.layers) else f" of {len(self.layers):,}"
        count = f"{low:,}{of} {'product' if len(self.layers) == 1 else 'products'}"
        weights = f"{size(self.bytes_before)} of weights become {size(self.bytes_after)}"
        return f"{self.form}: {count}, {weights}"

    def rows(self) -> list[dict[str, object]]:
        """Return a dict for each layer."""
        return [asdict(layer) for layer in self.layers]

    def _table(self) -> str:
        has_outputs = any(layer.output_error is not None for layer in self.layers)
        head = ["weight", ">inputs", ">outputs", "kind", ">before", ">after", ">weights' error"]
        head += [">output's error"] if has_outputs else []
        return table(head, (tuple(self._cells(layer, has_outputs)) for layer in self.layers))

    def _cells(self, layer: QuantizedLayer, has_outputs: bool) -> Iterator[str]:
        yield layer.weight
        yield from (f"{layer.inputs:,}", f"{layer.outputs:,}", layer.kind)
        yield from (size(layer.bytes_before), size(layer.bytes_after))
        yield f"{layer.weight_error:.2e}"
        if has_outputs:
            yield "–" if layer.output_error is None else f"{layer.output_error:.2e}"
