"""What pages of the documentation print, draw or count, made from the package itself."""
