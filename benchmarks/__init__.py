"""asv suites (`asv run --python=same --quick`) and a comparison with other engines (`python -m benchmarks.compare`)."""
