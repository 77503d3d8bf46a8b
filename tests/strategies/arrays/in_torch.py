"""PyTorch's functions under the names that random programs use; importing it needs PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.strategies.arrays.program import Plain


class Torch(Plain):
    """Where a name is missing it is NumPy's, of arrays that no derivative reaches."""

    tanh, sin, sigmoid, abs, exp = torch.tanh, torch.sin, torch.sigmoid, torch.abs, torch.exp
    log1p, sqrt, erf, relu = torch.log1p, torch.sqrt, torch.erf, torch.relu
    maximum, minimum, where, matmul = torch.maximum, torch.minimum, torch.where, torch.matmul
    reshape, broadcast_to, einsum = torch.reshape, torch.broadcast_to, staticmethod(torch.einsum)
    transpose, tril, triu, stack = torch.permute, torch.tril, torch.triu, torch.stack
    asarray = torch.as_tensor

    def softplus(self, a: Any) -> Any:
        return torch.logaddexp(a, torch.zeros_like(a))

    def sum(self, a: Any, axis: Any, keepdims: bool) -> Any:
        return a.sum(axis, keepdim=keepdims) if axis else a

    def mean(self, a: Any, axis: Any, keepdims: bool) -> Any:
        return a.mean(axis, keepdim=keepdims) if axis else a

    def max(self, a: Any, axis: Any, keepdims: bool) -> Any:
        return a.amax(axis, keepdim=keepdims) if axis else a

    def min(self, a: Any, axis: Any, keepdims: bool) -> Any:
        return a.amin(axis, keepdim=keepdims) if axis else a

    def var(self, a: Any, axis: Any, keepdims: bool) -> Any:
        return a.var(axis, correction=0, keepdim=keepdims) if axis else a * 0.0

    def logsumexp(self, a: Any, axis: Any, keepdims: bool) -> Any:
        return a.logsumexp(axis, keepdim=keepdims) if axis else a

    def prod(self, a: Any, axis: Any, keepdims: bool) -> Any:
        for k in reversed(axis):
            a = a.prod(k, keepdim=keepdims)
        return a

    def softmax(self, a: Any, axis: int) -> Any:
        return torch.softmax(a, axis)

    def log_softmax(self, a: Any, axis: int) -> Any:
        return torch.log_softmax(a, axis)

    def cumsum(self, a: Any, axis: int) -> Any:
        return torch.cumsum(a, axis)

    def sort(self, a: Any, axis: int) -> Any:
        return torch.sort(a, dim=axis, stable=True).values

    def argsort(self, a: Any, axis: int) -> Any:
        return torch.argsort(a, dim=axis, stable=True)

    def take_along_axis(self, a: Any, places: Any, axis: int) -> Any:
        return torch.take_along_dim(a, places, axis)

    def flip(self, a: Any, axis: int) -> Any:
        return torch.flip(a, [axis])

    def repeat(self, a: Any, times: int, axis: int) -> Any:
        return torch.repeat_interleave(a, times, axis)

    def roll(self, a: Any, by: int, axis: int) -> Any:
        return torch.roll(a, by, axis)

    def concatenate(self, parts: Any, axis: int) -> Any:
        return torch.cat(parts, axis)

    def pad(self, a: Any, widths: Any) -> Any:
        return torch.nn.functional.pad(a, [k for pair in reversed(widths) for k in pair])

    def take(self, a: Any, rows: np.ndarray, axis: int) -> Any:
        flat = torch.as_tensor(rows.reshape(-1) % a.shape[axis])
        shape = (*a.shape[:axis], *rows.shape, *a.shape[axis + 1 :])
        return torch.index_select(a, axis, flat).reshape(shape)

    def getitem(self, a: Any, key: Any) -> Any:
        """Steps below 0, which PyTorch's slices have not, by the numbers of their rows."""
        axis = 0
        for part in key:
            if isinstance(part, int):
                a = a.select(axis, part)
            elif part is None:
                a, axis = a.unsqueeze(axis), axis + 1
            else:
                rows = torch.arange(a.shape[axis]).numpy()[part].copy()
                a, axis = torch.index_select(a, axis, torch.as_tensor(rows)), axis + 1
        return a
