"""When which alert fired, as Prometheus saw it, and what Alertmanager told of it."""
