"""Scheduled Fusion -> Kernel: `pipeline.py` lists the stages."""
