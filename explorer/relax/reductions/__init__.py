"""Long reductions to few results, cut so that all units work on them."""
