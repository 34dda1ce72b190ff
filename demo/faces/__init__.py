"""What servers of known frameworks and releases show of what happens in them."""
