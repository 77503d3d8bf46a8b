"""Steps off, or in another order, as far as what they need is still there when they run."""
