"""Code that runs inside the emulator's process.

It has the emulator's packages and none of NoETL's.
"""
