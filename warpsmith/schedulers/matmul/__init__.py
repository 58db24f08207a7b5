"""Fusions of one matrix product, and pointwise operations on its result and on one operand."""
