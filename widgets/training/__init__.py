"""Pictures of training: losses, threads, replicas, skipped updates, and memory against time."""

from __future__ import annotations

from widgets.training.live import Live
from widgets.training.losses import losses
from widgets.training.memory_time import memory_time
from widgets.training.replicas import replicas
from widgets.training.threads import threads
from widgets.training.update import skipped_updates, update

__all__ = ["Live", "losses", "memory_time", "replicas", "skipped_updates", "threads", "update"]
