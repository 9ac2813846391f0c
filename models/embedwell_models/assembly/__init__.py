"""Assembly of a loaded model: encoder, heads and images, from the parts of other packages."""
