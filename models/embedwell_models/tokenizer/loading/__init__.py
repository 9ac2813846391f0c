"""Load the tokenizer of a model's folder: tokenizer.json and the JSON files beside it."""
