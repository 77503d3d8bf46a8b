"""What a kernel's tasks cost in one binding after the other, from one preparation."""

import pytest

import explorer
from explorer.cost.estimate import Estimate, task_terms
from explorer.ir.normal import normalise


@pytest.mark.parametrize("name", ["tiny_gpt2", "tiny_resnet18"])
def test_an_estimate_made_once_is_that_of_each_binding(name):
    c = explorer.compile(f"tests/data/{name}.onnx", until="rolled")
    for binding in c.program.kernel_calls[:12]:
        kernel = normalise(binding.expr.kernel)
        tiling = c.program.decisions.tiling(binding.var.name).chosen
        prepared = Estimate(kernel, tiling, c.device)
        for size in (1, 2, 7, 512):
            sizes = dict.fromkeys(c.hint, size)
            terms = prepared.terms(sizes)
            assert terms == task_terms(kernel, tiling, c.device, sizes)
            assert terms[0][0] == "compute" and terms[-1][0] == "task"
            assert all(us >= 0 for _, us in terms)
