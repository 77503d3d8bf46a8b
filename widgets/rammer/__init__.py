"""Pictures of Rammer: the brick wall, its waits, its policies."""
