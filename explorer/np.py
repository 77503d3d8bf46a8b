"""NumPy's names, on arrays what NumPy does, on traced values what is recorded:
`from explorer import np`.
"""

from explorer.frontends.arrays import *  # noqa: F403
from explorer.frontends.arrays import __all__ as __all__
