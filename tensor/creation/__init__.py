"""New tensors: from data, from ranges, random ones, and over the memory of others."""
