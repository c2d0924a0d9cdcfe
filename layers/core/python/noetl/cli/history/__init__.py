"""Commands that ask history: compare, cost, sql."""
