"""What happens around a kernel: compile, cache, load, launch, and the arrays it is given.

Knows nothing of fusions; it is handed CUDA source, bytes, integers and arrays.
"""
