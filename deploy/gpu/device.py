"""The device that the steps measure: the GPU, or the CPU if there is none."""

import torch

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
DTYPE = torch.bfloat16 if CUDA else torch.float32
"""The precision of other libraries, to compare with."""
