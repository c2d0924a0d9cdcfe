"""Routes that serve the web UI alone: sessions of browsers, and saved views."""
