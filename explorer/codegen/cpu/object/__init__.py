"""From the Python source of a kernel to machine code in memory: translate, compile, link, cache."""
