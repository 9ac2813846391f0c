"""Position encodings: schemes and their tables, in numpy."""
