"""Pictures of training: losses, threads, replicas, skipped updates, and memory against time."""

from __future__ import annotations

from widgets.training.losses import Live, losses
from widgets.training.memory_front import memory_time
from widgets.training.replica_timeline import replicas
from widgets.training.threads import threads
from widgets.training.update import skipped_updates, update

__all__ = ["Live", "losses", "memory_time", "replicas", "skipped_updates", "threads", "update"]
