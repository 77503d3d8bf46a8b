"""Operators: one record each, what programs mean (`evaluate`) and must satisfy (`verify`)."""
