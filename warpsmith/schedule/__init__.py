"""Schedule primitives: the only code that changes a fusion after it is defined."""
