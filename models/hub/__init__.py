"""Where a model comes from: a bundled wheel, the Hugging Face hub, a folder."""
