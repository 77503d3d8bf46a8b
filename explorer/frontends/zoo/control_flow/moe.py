"""A mixture of experts: each token goes through the one of eight that its router likes best.

Fedus et al. 2022, a Switch layer of 256 with experts of 1024: the answer of the expert is scaled
by how likely the router held it. Tokens go one after the other, and a choice of halves finds the
expert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.frontends import arrays as xp
from explorer.frontends.tracing.annotations import tensor
from explorer.frontends.tracing.control.branches import cond
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.zoo.control_flow.flow import Arrays, matrix, vector
from explorer.frontends.zoo.weights import Weight
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Experts:
    count: int = 8
    width: int = 256
    inner: int = 1024

    @property
    def weights(self) -> tuple[Weight, ...]:
        found = [matrix("router", self.width, self.count, gain=4.0)]
        for n in range(self.count):
            found += (
                matrix(f"experts.{n}.in.weight", self.width, self.inner, gain=2.0),
                vector(f"experts.{n}.in.bias", self.inner),
                matrix(f"experts.{n}.out.weight", self.inner, self.width),
                vector(f"experts.{n}.out.bias", self.width),
            )
        return tuple(found)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        return {"x": tensor("float32", "tokens", self.width)}

    def function(self, w: Arrays) -> Callable[..., Any]:
        def expert(n: int, token: Any) -> Any:
            inner = token @ w[f"experts.{n}.in.weight"] + w[f"experts.{n}.in.bias"]
            return xp.relu(inner) @ w[f"experts.{n}.out.weight"] + w[f"experts.{n}.out.bias"]

        def chosen(which: Any, token: Any, first: int, last: int) -> Any:
            if last - first == 1:
                return expert(first, token)
            middle = (first + last) // 2
            return cond(
                which < middle,
                lambda t: chosen(which, t, first, middle),
                lambda t: chosen(which, t, middle, last),
                token,
            )

        def step(_: None, row: Any) -> Any:
            token, which, likely = row
            return None, chosen(which, token[None], 0, self.count)[0] * likely

        def moe(x: Any) -> dict[str, Any]:
            likely = xp.softmax(x @ w["router"])
            which = xp.argmax(likely, axis=1)
            _, y = scan(step, None, (x, which, xp.max(likely, axis=1)))
            return {"y": x + y, "expert": which}

        return moe


FULL = Experts()
SMALL = Experts(count=8, width=16, inner=32)
