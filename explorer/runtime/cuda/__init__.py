"""Device programs of GPUs: Rammer's rPrograms as one persistent kernel (OSDI'20, section 4.3).

They run on a GPU, or in its simulator.
"""
