"""ELMo."""
