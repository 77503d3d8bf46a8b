"""What is on show, as plain values: the compilation, its operators, its knobs, its wall."""
