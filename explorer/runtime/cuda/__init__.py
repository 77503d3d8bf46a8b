"""Device programs of GPUs: Rammer's rPrograms as one persistent kernel (OSDI'20, section 4.3), on a
GPU where there is one, and in its stand-in where there is none.
"""
