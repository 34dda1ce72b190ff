"""Service level objectives: what may be written, and what can be known of it before anything runs."""
