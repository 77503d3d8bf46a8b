"""What of a session a clock says: settings, tiles, loops and tasks that are timed, some beside."""
