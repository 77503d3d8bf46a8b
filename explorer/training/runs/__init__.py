"""A training run: batches made ahead, steps compiled beside it, checkpoints, what was seen."""
