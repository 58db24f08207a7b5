"""Ways to define a fusion: nvFuser's `FusionDefinition`, and `fuse` on plain functions."""
