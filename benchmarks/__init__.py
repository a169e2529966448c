"""asv suites (`asv run --python=same --quick`) and the comparison with llama.cpp (`python -m benchmarks.compare`)."""
