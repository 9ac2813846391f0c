"""The encoder on torch, on any device."""
