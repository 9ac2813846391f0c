"""From a request's inputs to its vectors, within its limits: read, admit, cache, compute."""
