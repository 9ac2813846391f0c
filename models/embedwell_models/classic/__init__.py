"""Old models: word vectors, LSTMs, and transformers with layers of their own."""
