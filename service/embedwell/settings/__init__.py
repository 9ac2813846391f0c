"""Settings of the server and of its models."""
