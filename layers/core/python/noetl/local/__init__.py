"""The whole deployed system on one machine.

It consists of an emulator of AWS, a real Postgres, and ``cdk deploy`` of every stack.
Nothing here is part of a deployment. ``noetl_emulator`` runs inside the emulator's own environment and imports no other NoETL module.
"""
