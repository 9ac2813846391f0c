"""Pictures of texts and position encodings, for `embedding-service plot`."""
