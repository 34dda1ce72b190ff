"""The web page: rendered on the server, readable without JavaScript, nothing loaded from elsewhere."""
