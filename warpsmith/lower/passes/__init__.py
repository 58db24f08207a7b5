"""Passes over the Kernel form, one in a file."""
