"""The frameworks side by side, from what the history holds of them."""
