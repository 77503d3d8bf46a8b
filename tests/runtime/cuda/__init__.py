"""Device programs of GPUs, in the stand-in for one."""
