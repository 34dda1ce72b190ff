"""The command line: one file per command; every command imports its part when it runs."""
