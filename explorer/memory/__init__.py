"""Memory plans: which values need bytes, when each is used, and where they share.

Relax (Lai et al., ASPLOS 2025, section 4.3) plans storages once for a program (`storages`); the
arena is laid out for each binding (`plan`). Both need the uses of the values (`timeline`), which
follow from Grinder's tasks and Rammer's schedules.
"""
