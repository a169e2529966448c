"""Metal kernels on an NVIDIA GPU: translated to C++, compiled to PTX. See README.md."""
