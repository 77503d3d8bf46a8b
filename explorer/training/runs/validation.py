"""What a model is worth on batches that it does not learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from explorer.compilation import Compilation
from explorer.compiler import compile as compiled
from explorer.errors import BadOption
from explorer.frontends.trace import trace
from explorer.options import Options
from explorer.training.runs.programs import Batch, Signature, declared, signature
from explorer.training.tree import each, leaves

Data: TypeAlias = Iterable[Any] | Callable[[int], Iterable[Any]]  # batches, or those of an epoch


def as_batch(item: Any) -> Batch:
    """A batch as a tuple of arrays, nested as they were."""
    made = each(np.asarray, item)
    return made if isinstance(made, tuple) else (made,)


class Validation:
    """Scalars of parameters and a batch, as means over all batches; one program for all of them."""

    def __init__(
        self, scalars: Mapping[str, Callable[..., Any]], data: Data, options: Options | None
    ) -> None:
        self.scalars, self.data, self.options = scalars, data, options
        self._known: dict[Signature, Compilation] = {}

    def means(self, params: Any, epoch: int) -> dict[str, float]:
        """The mean of each; BadOption where there is no batch."""
        found: list[list[float]] = []
        for item in self.data(epoch) if callable(self.data) else self.data:
            batch = as_batch(item)
            values = self._program(params, batch).run(*leaves(params), *leaves(batch)).values()
            found.append([float(v) for v in values])
        if not found:
            raise BadOption(f"there is no batch to validate with after epoch {epoch}")
        return dict(zip(self.scalars, np.mean(found, axis=0).tolist(), strict=True))

    def _program(self, params: Any, batch: Batch) -> Compilation:
        kind = signature(batch)
        if kind not in self._known:

            def every(params: Any, batch: Any) -> Any:
                return tuple(f(params, *batch) for f in self.scalars.values())

            model = trace(every)(declared(params), declared(batch))
            self._known[kind] = compiled(model, options=self.options)
        return self._known[kind]
