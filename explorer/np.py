"""NumPy's names: on arrays NumPy itself, on traced values recorded: `from explorer import np`."""

from explorer.frontends.python.arrays import *  # noqa: F403
from explorer.frontends.python.arrays import __all__ as __all__
