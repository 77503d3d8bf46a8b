"""Scalar functions as LLVM code, for one number or a vector, with what each is off by at most."""
