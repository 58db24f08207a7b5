"""Several pointwise programs in one kernel, each in blocks of its own."""
