"""Plans of one binding of the sizes: which units run what, in what order, and at what cost."""
