"""Word2Vec, GloVe and fastText."""
