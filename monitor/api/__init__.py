"""The HTTP API under /api/v1: servers now, and the history."""
