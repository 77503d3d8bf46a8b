"""Warm-ups of chapter 00."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
