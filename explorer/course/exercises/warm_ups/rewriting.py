"""Warm-ups of chapter 02."""

from explorer.course.exercise import Exercise

WARM_UPS: tuple[Exercise, ...] = ()
