"""Grafana dashboards, drawn with the schema's names and the alerts' expressions."""
