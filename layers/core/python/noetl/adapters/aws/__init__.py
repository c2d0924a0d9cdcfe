"""Adapters of AWS services behind the ports.

Clients come from boto3; its resource layer is not used.
"""
