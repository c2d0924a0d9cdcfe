"""What AWS offers behind our ports. botocore only: boto3's resource layer costs a start-up that nobody here has any use for."""
