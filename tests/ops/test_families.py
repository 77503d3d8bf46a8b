"""Families are told from what kernels do."""

from __future__ import annotations

import pytest

from explorer.ops import kernel_family
from tests.codegen.cases import (
    Case,
    attention,
    conv,
    layer_norm,
    linear,
    pool,
    softmax,
    transpose,
)


@pytest.mark.parametrize(
    ("case", "family"),
    [
        (conv(9, 9, 4, 8, 3, 1, 1), "conv"),
        (conv(16, 16, 3, 8, 4, 4, 0), "conv"),  # patches that do not overlap
        (conv(9, 9, 12, 12, 3, 1, 1, groups=12), "conv"),
        (linear(4, 5, 9, "relu", {}), "matmul"),
        (attention(1, 16, 2, 8, {}), "matmul"),
        (softmax(2, 5, {}), "reduction"),
        (layer_norm(3, 8, {}), "reduction"),
        (pool(8, 4, 2, 2, 0, "max", {}), "reduction"),
        (transpose((2, 3, 4), (0, 2, 1), {}), "layout"),
    ],
    ids=lambda v: v.name if isinstance(v, Case) else v,
)
def test_a_kernel_is_coloured_by_what_it_does(case: Case, family: str) -> None:
    assert kernel_family(case.kernel) == family
