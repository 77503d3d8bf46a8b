"""Sweeps of one model over all combinations of settings, with local or remote workers.

Rows carry the card of their machine and are stored as they arrive.
"""

from explorer.tuning.sweep.run import Sweep, sweep

__all__ = ["Sweep", "sweep"]
