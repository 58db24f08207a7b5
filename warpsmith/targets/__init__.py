"""What GPUs are: limits, instructions and rates, as frozen values that are passed."""
