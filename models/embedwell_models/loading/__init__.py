"""Assembly of a loaded model (encoder, heads, image encoder) from the parts of other packages."""
