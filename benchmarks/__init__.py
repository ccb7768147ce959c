"""Benchmarks against plain NumPy and PyTorch: run `python -m benchmarks` from the repository's root."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Set this before NumPy loads its BLAS: all contenders use two threads, on machines of any size.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "2")
