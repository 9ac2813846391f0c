"""Adapters (LoRA, DoRA): as PEFT saves them, and among the tensors of a checkpoint."""
