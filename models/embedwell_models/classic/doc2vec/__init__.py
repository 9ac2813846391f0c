"""Doc2Vec."""
