"""A recursive autoencoder: the vector of a tree is computed from those of its two children.

Socher et al. 2011, at the size of Zhang et al. 2023, section 6: one linear layer from 1,024 to 512
for every inner node of a tree with at most 127 nodes. The tree is data, and the function is
recursive to the depth of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.frontends import arrays as xp
from explorer.frontends.functions import function
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.zoo.control_flow.flow import Arrays, matrix, vector
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class RecursiveAutoencoder:
    """Sizes of the model."""

    hidden: int = 512
    nodes: int = 127  # of the largest tree

    @property
    def weights(self) -> tuple[Weight, ...]:
        """The weights."""
        return (
            matrix("encode.weight", 2 * self.hidden, self.hidden),
            vector("encode.bias", self.hidden),
        )

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The children of each node, -1 for none, and each leaf's vector; node 0 is the root."""
        links = tensor("int64", self.nodes)
        leaves = tensor("float32", self.nodes, self.hidden)
        return {"left": links, "right": links, "leaf": leaves}

    def function(self, w: Arrays) -> Callable[..., Any]:
        """Return the model as a function over arrays, with weights `w`."""
        inputs = {"node": tensor("int64"), **self.inputs}

        @function(inputs=inputs, result=tensor("float32", self.hidden))
        def encode(node: Any, left: Any, right: Any, leaf: Any) -> Any:
            if left[node] < 0:
                return leaf[node]
            first = encode(left[node], left, right, leaf)
            second = encode(right[node], left, right, leaf)
            both = xp.concatenate([first, second])
            return xp.tanh(both @ w["encode.weight"] + w["encode.bias"])

        def recursive_autoencoder(left: Any, right: Any, leaf: Any) -> dict[str, Any]:
            return {"root": encode(0, left, right, leaf)}

        return recursive_autoencoder


FULL = RecursiveAutoencoder()
SMALL = RecursiveAutoencoder(hidden=16, nodes=15)
