"""Benchmarks: one file a family of problems, us and every installed peer in one process."""
