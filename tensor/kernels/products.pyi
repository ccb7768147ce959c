# Only for `cimport`.
