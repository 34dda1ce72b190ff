"""The sidecar: inference servers and GPUs in, one metric schema out."""
