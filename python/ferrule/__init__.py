"""Runs language models from Python, on any CPU through SIMD and on Apple GPUs through Metal."""
