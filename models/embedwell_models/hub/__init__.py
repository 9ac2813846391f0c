"""The sources of models: a bundled wheel, the Hugging Face hub, a folder."""
