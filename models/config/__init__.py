"""What config.json and other JSON files of a model say, as types."""
