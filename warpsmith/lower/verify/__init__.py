"""The rules of the Kernel form, which every pass is to keep."""
