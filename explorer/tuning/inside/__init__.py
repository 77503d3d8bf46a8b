"""Where the time of a kernel goes: a copy of it with stamps around its parts, run beside it."""
