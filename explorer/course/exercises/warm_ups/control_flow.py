"""Warm-ups of chapter 09."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
