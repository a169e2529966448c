"""Running a model: cache, step inputs, programs, sampling, generation."""
