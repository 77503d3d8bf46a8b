"""Memory of intermediates: storages, their pool, and the plan."""
