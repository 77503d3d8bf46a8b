"""PTX and machine code of GPUs: compiled, cached, and read line by line."""
