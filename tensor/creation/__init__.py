"""Creation of tensors: from data, ranges, random numbers and external memory."""
