"""Loading of a model folder's tokenizer from tokenizer.json and the JSON files beside it."""
