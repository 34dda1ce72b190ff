"""Objectives and conditions judged from the history, as the rules judge them in a Prometheus."""
