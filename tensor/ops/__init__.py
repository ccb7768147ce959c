"""Operations: dispatch, elementwise, reductions, scans, linear algebra, shapes, indexing, in place."""
