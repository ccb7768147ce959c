# What it has is for `cimport`.
