"""Rows that stay in registers, and partial sums of columns: norms backward read each row once."""
