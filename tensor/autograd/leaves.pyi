# Compiled callers alone: see leaves.pxd.
