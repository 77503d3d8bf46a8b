"""Reference interpreter: the semantics of programs, their checks, and the libraries."""
