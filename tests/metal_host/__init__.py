"""Metal kernels on Linux: translated, executed on the host and checked. See README.md."""
