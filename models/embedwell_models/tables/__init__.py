"""Tables of vectors whose rows are decoded when they are read, in numpy."""
