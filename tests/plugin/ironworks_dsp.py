"""A target of another distribution: a signal processor of small cores, which prints C."""

from pathlib import Path

from explorer.devices.catalogue import device
from explorer.devices.target import register
from explorer.ir.text.tile_printer import print_tile_program
from explorer.targets.cpu import Cores

MESSAGE_US = 3.0  # from the host to the cores, for each kernel of this imagined device


class Dsp(Cores):
    """Cores that nobody has here: compiling ends with a plan, and code is C to look at.

    Memories, tiles, their legality and their rewrites are those of cores.
    """

    is_emitted = False

    def price_us(self, kernel, device, env, top_k):
        """Return the time of cores, and of a message."""
        return super().price_us(kernel, device, env, top_k) + MESSAGE_US

    def print(self, kernel, tiling, env, sizes, device):
        """Return a C function with the tile program as its comment."""
        program = self.steps(kernel, tiling, env, sizes, device)[-1][1]
        body = "\n".join(f"  // {line}" for line in print_tile_program(program))
        return f"void {kernel.name}(long first, long last, void **tensors)\n{{\n{body}\n}}\n"


register("dsp", Dsp())
DEVICE = device(str(Path(__file__).with_name("dsp.toml")))
