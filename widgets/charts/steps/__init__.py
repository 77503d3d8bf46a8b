"""The charts of what steps are worth."""
