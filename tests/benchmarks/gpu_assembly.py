"""Registers that NVIDIA's assembler spills in the thread blocks of some models.

    python -m tests.benchmarks gpu_assembly [MODEL ...]

Needs numba-cuda, and no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import explorer
from explorer.codegen.cuda.assemble import assemble
from explorer.codegen.cuda.build import print_block
from explorer.cost.bind_kernel import bind_kernel
from explorer.devices.catalogue import device
from explorer.errors import BadOption, CheckFailed
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import normalise
from tests.benchmarks.rows import parser_of

MODELS = ("zoo:resnet50", "zoo:tiny_bert", "zoo:lstm")
CAPABILITIES = (75, 80, 90)  # tenths


def report(model: str) -> None:
    """A line a capability: of the different blocks of a wall on an A100."""
    c = explorer.compile(model, target="a100", until="planned")
    chosen, env = c.chosen_blocks(), c.program.env
    for capability in CAPABILITIES:
        gpu = replace(device("a100"), capability=capability)
        spills, sums, refused = dict[str, int](), set[str](), 0
        for b in c.program.kernel_calls:
            kernel = b.kernel_call.kernel
            for block in chosen.get(b.name, (None,)):
                try:
                    code = print_block(kernel, gpu, env, c.hint, block)
                except (BadOption, CheckFailed):
                    refused += 1
                    continue
                if code.source not in spills:
                    spills[code.source] = assemble(code, gpu).spilled_bytes
                if any(map(contraction, normalise(bind_kernel(kernel, c.hint)).computes)):
                    sums.add(code.source)
        clean = sum(not spills[s] for s in sums)
        print(
            f"{model} {capability / 10}: {len(spills)} blocks assembled, {refused} calls refused; "
            f"{clean} of {len(sums)} contractions without spills; spilled of others: "
            f"{sum(n > 0 for s, n in spills.items() if s not in sums)}",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the lines of each model."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    for name in parser.parse_args(arguments).models:
        report(name)


if __name__ == "__main__":
    main()
