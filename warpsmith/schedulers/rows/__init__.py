"""Rows that are needed again after they were reduced: what their kernels take, by one model."""
