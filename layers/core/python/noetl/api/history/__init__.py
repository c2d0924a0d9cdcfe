"""Routes over history: moments, comparisons, statistics, SQL."""
