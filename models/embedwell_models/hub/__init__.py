"""Sources of models: a bundled wheel, the Hugging Face Hub, a folder."""
