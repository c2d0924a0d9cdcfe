"""The inside of a confined process.

It uses the standard library only, and little of it: every cold start loads it.
"""
