"""Warm-ups of chapter 10b."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
