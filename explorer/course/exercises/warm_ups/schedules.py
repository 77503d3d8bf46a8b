"""Warm-ups of chapter 06."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
