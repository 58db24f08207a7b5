"""Scans along one dimension, all in one direction, with pointwise work around them."""
