"""Fusions whose reductions all reduce the same dimensions of one domain, in one kernel."""
