"""Commands of `embedwell`: convert, compress and train."""
