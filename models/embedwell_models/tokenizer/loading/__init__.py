"""Loading of a model folder's tokenizer from tokenizer.json and the JSON files next to it."""
