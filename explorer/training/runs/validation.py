"""Validation of a model on held-out batches."""

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
    """Return a batch as a tuple of arrays, with its nesting."""
    arrays = each(np.asarray, item)
    return arrays if isinstance(arrays, tuple) else (arrays,)


class Validation:
    """Means over all batches of scalars of parameters and a batch, by one program."""

    def __init__(
        self, scalars: Mapping[str, Callable[..., Any]], data: Data, options: Options | None
    ) -> None:
        """Prepare the validation of these scalars."""
        self.scalars, self.data, self.options = scalars, data, options
        self._programs: dict[Signature, Compilation] = {}

    def means(self, params: Any, epoch: int) -> dict[str, float]:
        """Return the mean of each scalar; BadOption if there is no batch."""
        rows: list[list[float]] = []
        for item in self.data(epoch) if callable(self.data) else self.data:
            batch = as_batch(item)
            values = self._program(params, batch).run(*leaves(params), *leaves(batch)).values()
            rows.append([float(v) for v in values])
        if not rows:
            raise BadOption(f"there is no batch to validate with after epoch {epoch}")
        return dict(zip(self.scalars, np.mean(rows, axis=0).tolist(), strict=True))

    def _program(self, params: Any, batch: Batch) -> Compilation:
        kind = signature(batch)
        if kind not in self._programs:

            def every(params: Any, batch: Any) -> Any:
                return tuple(f(params, *batch) for f in self.scalars.values())

            model = trace(every)(declared(params), declared(batch))
            self._programs[kind] = compiled(model, options=self.options)
        return self._programs[kind]
