"""Fusions of one matrix product of any operands, which threads multiply."""
