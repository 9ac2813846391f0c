"""Tables of vectors in numpy, whose rows are decoded when they are read."""
