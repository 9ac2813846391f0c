"""From the inputs of a request to vectors."""
