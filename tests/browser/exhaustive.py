"""Parameters of which `make test` leaves out all but the first."""

from __future__ import annotations

from typing import Any

import pytest


def exhaustive(*values: Any) -> Any:
    """A set of parameters for `make test-all` alone."""
    return pytest.param(*values, marks=pytest.mark.exhaustive)
