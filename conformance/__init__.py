"""Holds the tables to the metrics that a release of a serving framework declares in its own source."""
