"""What the systems may be told, one frozen field group each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.autodiff.rematerialisation.options import Options as RematerialisationOptions
from explorer.devices.hardware import Options as HardwareOptions
from explorer.grinder import Options as GrinderOptions
from explorer.passes.convolution.winograd import Options as ConvolutionOptions
from explorer.passes.pipeline import own_passes
from explorer.passes.pipeline.registry import Passes
from explorer.passes.recurrent.shared_products import Options as RecurrentOptions
from explorer.passes.softmax.online_softmax import OnlineSoftmax
from explorer.passes.switches.arrangement import Options as StepOptions
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory.plan import Options as MemoryOptions
from explorer.relax.options import Options as RelaxOptions
from explorer.roller import Options as RollerOptions
from explorer.welder import Options as WelderOptions


@dataclass(frozen=True, slots=True)
class Options:
    """Knobs by system: `Options(rammer=explorer.rammer.Options(threads=1))`.

    `hardware` compiles for a device with other figures than it has: what if it had twice the units?
    `steps` leaves steps of the pipeline out, or puts them elsewhere. `passes` are the user's own,
    each after a step that it names: `Options(passes=(("legalise to kernels", my_pass),))`; with
    `registered`, those of `@explorer.compiler_pass(name, after=...)` come as well.
    """

    recurrent: RecurrentOptions = RecurrentOptions()
    relax: RelaxOptions = RelaxOptions()
    grinder: GrinderOptions = GrinderOptions()
    welder: WelderOptions = WelderOptions()
    softmax: OnlineSoftmax = OnlineSoftmax()
    convolution: ConvolutionOptions = ConvolutionOptions()
    roller: RollerOptions = RollerOptions()
    rematerialisation: RematerialisationOptions = RematerialisationOptions()
    rammer: RammerOptions = RammerOptions()
    memory: MemoryOptions = MemoryOptions()
    hardware: HardwareOptions = HardwareOptions()
    steps: StepOptions = StepOptions()
    passes: Passes = ()
    registered: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "passes", own_passes.named(self.passes))

    @property
    def entered(self) -> Options:
        """What a compilation is done with: all its passes, whatever is registered later."""
        if not self.registered:
            return self
        return replace(self, passes=own_passes.entered(self.passes), registered=False)
