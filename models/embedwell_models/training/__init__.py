"""Training in small: tokenizers, word vectors, sentence encoders and static tables."""
