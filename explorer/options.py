"""What the systems may be told, one frozen field group each."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.online_softmax import OnlineSoftmax
from explorer.passes.shared_products import Options as RecurrentOptions
from explorer.passes.winograd import Options as ConvolutionOptions
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory_plan import Options as MemoryOptions
from explorer.relax.options import Options as RelaxOptions
from explorer.roller import Options as RollerOptions
from explorer.welder import Options as WelderOptions


@dataclass(frozen=True, slots=True)
class Options:
    """Knobs by system: `Options(rammer=explorer.rammer.Options(threads=1))`."""

    recurrent: RecurrentOptions = RecurrentOptions()
    relax: RelaxOptions = RelaxOptions()
    welder: WelderOptions = WelderOptions()
    softmax: OnlineSoftmax = OnlineSoftmax()
    convolution: ConvolutionOptions = ConvolutionOptions()
    roller: RollerOptions = RollerOptions()
    rammer: RammerOptions = RammerOptions()
    memory: MemoryOptions = MemoryOptions()
