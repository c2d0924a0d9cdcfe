"""Commands that ask history: compare, sql."""
