"""Kernel form: the structured program between a scheduled fusion and CUDA text."""
