"""Programs that leave the process: portable data, C, WebAssembly."""
