"""Training of small models: tokenizers, word vectors, sentence encoders and static tables."""
