"""What is good, what is wrong, how to say it in PromQL, and what to do about it."""
