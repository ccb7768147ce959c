# Only for compiled callers: see fitting.pxd.
