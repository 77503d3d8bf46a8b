"""PTX and machine code of GPUs: made, kept, and read line by line."""
