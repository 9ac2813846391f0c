"""Parts that all backends share: batches, sequence layout, pooling, heads, position hooks."""
