"""The inside of a confined process. Standard library only, and little of it: every cold start loads it."""
