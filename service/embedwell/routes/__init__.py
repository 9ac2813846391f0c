"""HTTP APIs: a module for each, with its request, its response type, its service and its routes."""
