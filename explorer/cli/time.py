"""`ironworks time`: how long a run takes, in all and per operator, beside what was planned."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, parsed, run_flags, seconds
from explorer.cli.compiled import arrays, compiled, loaded, options
from explorer.cli.progress import doing
from explorer.cli.text import binding, counted, duration, signed_percent, table
