"""Tensors and the outside: NumPy, DLPack, files in the safetensors format, pickles, text."""
