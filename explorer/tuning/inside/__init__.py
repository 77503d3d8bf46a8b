"""Time within a kernel: an instrumented copy with time stamps around its parts."""
