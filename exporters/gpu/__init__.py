"""Readings of GPUs, by NVIDIA's NVML or from a dcgm-exporter's page, in the schema's `gpu_` metrics."""
