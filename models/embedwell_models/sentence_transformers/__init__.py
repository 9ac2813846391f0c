"""The files that sentence-transformers lays beside an encoder, and what it does without them."""
