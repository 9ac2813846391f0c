"""Files that sentence-transformers stores beside an encoder, and its defaults without them."""
