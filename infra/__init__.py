"""The deployment: a CDK app whose queues, functions, policies and alarms come from the registry of kinds."""
