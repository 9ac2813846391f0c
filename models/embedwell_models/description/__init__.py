"""Description of a model folder, read without weights and torch; its parameters and fingerprint."""
