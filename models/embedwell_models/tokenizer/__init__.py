"""Text to token ids and back: offsets, truncation, long texts."""
