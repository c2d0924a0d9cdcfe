"""Adapters of AWS services behind the ports.

Clients come from botocore: boto3 adds resources and transfers, which nothing here uses, and time to every cold start.
"""
