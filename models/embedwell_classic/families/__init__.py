"""Families of older models: a record and the reader of config.json for each."""
