"""One module per stack; app.py says how they fit."""
