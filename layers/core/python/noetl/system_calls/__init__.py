"""System calls as the rest of the package makes them."""
