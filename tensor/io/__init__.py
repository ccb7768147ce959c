"""Conversion of tensors: NumPy, DLPack, safetensors and other files, pickle, text."""
