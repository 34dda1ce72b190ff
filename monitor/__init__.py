"""Numbers over time: sources, SQL history, SLO budgets, comparison, API and web page."""
