"""`ironworks bug-report`: what a report of a fault needs, and nothing private."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.cli.bug_report.report import command


def main(given: Sequence[str]) -> int:
    """Print the report, or write it."""
    return command(given)
