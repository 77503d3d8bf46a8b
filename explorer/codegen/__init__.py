"""Code generation from tile programs, statement by statement: no template per operator."""
