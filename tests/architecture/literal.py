"""The literal behind a read-only mapping: a test adds to it, as an edit of its file would."""

import gc
from collections.abc import Mapping
from typing import Any


def behind(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The dict that a mapping proxy shows."""
    (found,) = (x for x in gc.get_referents(mapping) if isinstance(x, dict))
    return found
