"""Lines that tests want at the end of the session, also from the processes of xdist. ``tests/conftest.py`` prints them."""

NOTES: list[str] = []
