"""Metal kernels against NumPy."""
