"""From a fusion and arrays to results: segments, schedules, compiles, caches and launches."""
