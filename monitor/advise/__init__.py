"""What to change at servers and GPUs, with the evidence."""
