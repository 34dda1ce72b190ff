"""Recording and alerting rules from objectives: pure, spec in, text out."""
