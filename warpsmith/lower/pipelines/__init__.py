"""What becomes of pipelines: where their verbs stand, and what each is on the GPU."""
