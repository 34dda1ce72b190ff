"""A simulated fleet that speaks the inference servers' own metric names."""
