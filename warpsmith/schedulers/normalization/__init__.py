"""Fusions that need a row again after they reduced it: one kernel that keeps it in registers."""
