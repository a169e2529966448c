"""Model files behind one face: names to tensors in their stored format, a config, a tokenizer."""
