"""Data-parallel replicas on threads, processes and machines, with bucketed all-reduce."""
