"""Reference interpreter: the semantics of programs and kernels, their checks, and the libraries."""
