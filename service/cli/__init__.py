"""The commands of `embedding-service`."""
