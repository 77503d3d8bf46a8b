"""One model under every combination of some settings: rows with a machine's card, here or on many
machines, kept as they arrive.
"""

from explorer.tuning.sweep.run import Sweep, sweep

__all__ = ["Sweep", "sweep"]
