"""Untrusted or user code: tried in a helper process first, and located by line when it fails."""
