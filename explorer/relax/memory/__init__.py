"""Where intermediates lie: storages, their pool, and the plan."""
