"""Files that sentence-transformers stores next to an encoder, and its defaults without them."""
