"""Products by one constant, done once for many steps."""
