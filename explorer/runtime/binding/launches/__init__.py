"""From scheduled uTasks to what runs: launches of rows for units, and what Python does between."""
