"""The commands of `embedwell`."""
