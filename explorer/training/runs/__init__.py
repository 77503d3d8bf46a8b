"""Training runs: prefetched batches, background compilation, checkpoints, timelines."""
