"""Whatever answers Prometheus' query API, as a source: Prometheus, VictoriaMetrics, Thanos, Mimir."""
