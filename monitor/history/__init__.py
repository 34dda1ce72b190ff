"""What passed, in SQL: minute rows with mergeable histograms, written once and asked at any percentile."""
