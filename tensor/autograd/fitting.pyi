# Compiled callers alone: see fitting.pxd.
