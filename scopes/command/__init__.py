"""The command ``disposescope``: run and report."""
