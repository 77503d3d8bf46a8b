"""Scalar functions as LLVM code, for one number or a vector, with the error bound of each."""
