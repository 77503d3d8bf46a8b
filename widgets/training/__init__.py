"""Pictures of training: losses, what each thread did, and updates that data skip."""

from __future__ import annotations

from widgets.training.live import Live
from widgets.training.losses import losses
from widgets.training.threads import threads
from widgets.training.update import skipped_updates, update

__all__ = ["Live", "losses", "skipped_updates", "threads", "update"]
