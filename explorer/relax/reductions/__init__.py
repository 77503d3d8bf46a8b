"""Long reductions to few results, split so that all units work on them."""
