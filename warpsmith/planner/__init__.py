"""From a program to kernels: what crosses memory, in which form, and who computes it."""
