"""Commands that evaluate vectors and draw them."""
