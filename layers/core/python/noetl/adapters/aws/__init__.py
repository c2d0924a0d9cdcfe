"""What AWS offers behind our ports. Clients come from boto3; its resource layer is not used."""
