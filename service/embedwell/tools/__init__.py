"""Commands besides serving: train, convert, compress, evaluate and plot."""
