"""Options of all systems, one frozen field group each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.devices.hardware import Options as HardwareOptions
from explorer.extend import passes
from explorer.grinder import Options as GrinderOptions
from explorer.memory.plan import Options as MemoryOptions
from explorer.passes.arrangement import Options as StepOptions
from explorer.passes.registry import Passes
from explorer.rammer import Options as RammerOptions
from explorer.relax.options import Options as RelaxOptions
from explorer.roller import Options as RollerOptions
from explorer.transforms.autodiff.options import Options as RematerialisationOptions
from explorer.transforms.shared_products import Options as RecurrentOptions
from explorer.transforms.softmax import OnlineSoftmax
from explorer.transforms.winograd import Options as ConvolutionOptions
from explorer.welder import Options as WelderOptions


@dataclass(frozen=True, slots=True)
class Options:
    """Options by system: `Options(rammer=explorer.rammer.Options(threads=1))`.

    `hardware` compiles for a device with changed figures, such as twice the units. `steps` leaves
    steps of the pipeline out, or moves them. `passes` are the user's own, each after a step that it
    names: `Options(passes=(("legalise to kernels", my_pass),))`; with `registered`, those of
    `@explorer.compiler_pass(name, after=...)` are included.
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
        """Give every pass of the user a name of its own."""
        object.__setattr__(self, "passes", passes.name_passes(self.passes))

    @property
    def entered(self) -> Options:
        """The options with all registered passes listed, so later registrations change nothing."""
        if not self.registered:
            return self
        return replace(self, passes=passes.with_registered(self.passes), registered=False)
