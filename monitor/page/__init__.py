"""The web page: rendered on the server, readable without JavaScript, nothing loaded from elsewhere."""

from monitor.page.routes import router

__all__ = ["router"]
