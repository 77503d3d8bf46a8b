"""Questions that change what is on show, or begin work on it, by what they are about."""
