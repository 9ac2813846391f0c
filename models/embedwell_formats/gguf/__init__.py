"""Models in GGUF, llama.cpp's format: one file with weights, configuration and tokenizer."""
