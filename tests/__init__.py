"""The tests, as a regular package: an installed package that is also named ``tests`` must not hide it."""
