"""Layout of a CANINE batch: characters, their attention blocks, and molecules.

B texts, T tokens, C characters, M molecules (downsampled positions), R downsampling rate.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.sequence_layout import SequenceLayout


class CanineLayout:
    """Rows of B concatenated texts, which are padded at the end to at least R characters.

    No character attends to the padding, which makes the computation of shorter texts possible. Each
    text has a molecule of its first character, and a molecule for each R characters, without the
    last R to 2 R - 1 characters.

    texts, blocks, molecules: layouts of the sequences in which attention is computed. ids,
    positions: (C,) of each character. is_token: (C,) False for padding. molecule: (C,) row of each
    character's molecule, from which its state is upsampled. is_first: (M,) whether a molecule
    belongs to a first character. firsts: (B,) rows of these characters. sources: (M - B, R) rows of
    the characters of each other molecule.
    """

    def __init__(self, batch: Batch, rate: int, block: int, device: torch.device) -> None:
        """rate: R. block: characters that attend to each other in the first layer."""
        self.device = device
        lengths = batch.lengths.tolist()
        padded = [max(length, rate) for length in lengths]
        counts = [length // rate for length in padded]
        limited = padded != lengths
        self.texts = SequenceLayout(padded, device, key_counts=lengths if limited else None)
        blocks, keys = _blocks(padded, block), _blocks(lengths, block)
        self.blocks = SequenceLayout(blocks, device, key_counts=keys if limited else None)
        self.molecules = SequenceLayout(counts, device)
        sizes = torch.tensor(padded)
        starts = sizes.cumsum(0) - sizes
        positions = torch.arange(sum(padded)) - starts.repeat_interleave(sizes)
        is_token = positions < torch.tensor(lengths).repeat_interleave(sizes)
        ids = torch.zeros(len(positions), dtype=torch.int64)
        ids[is_token] = torch.from_numpy(batch.ids)
        of_texts = torch.tensor(counts)
        first_molecules = of_texts.cumsum(0) - of_texts
        last = (of_texts - 1).repeat_interleave(sizes)
        upsampled = torch.minimum(positions // rate + 1, last)
        upsampled += first_molecules.repeat_interleave(sizes)
        order = torch.arange(sum(counts)) - first_molecules.repeat_interleave(of_texts)
        begins = (starts.repeat_interleave(of_texts) + (order - 1) * rate)[order > 0]
        self.ids, self.positions, self.is_token = self._on_device(ids, positions, is_token)
        self.molecule, self.is_first, self.firsts, self.sources = self._on_device(
            upsampled, order == 0, starts, begins[:, None] + torch.arange(rate)
        )

    def windows(self, size: int) -> Tensor:
        """Return the rows of the `size` characters around each character: (C, size).

        If `size` is even, there is one more character on the right. Row C means a character outside
        the text.
        """
        lengths = self.texts.lengths.repeat_interleave(self.texts.lengths)[:, None]
        offsets = torch.arange(size, device=self.device) - (size - 1) // 2
        places = self.positions[:, None] + offsets
        rows = torch.arange(len(places), device=self.device)[:, None] + offsets
        return torch.where((places >= 0) & (places < lengths), rows, len(places))

    def _on_device(self, *tensors: Tensor) -> list[Tensor]:
        return [tensor.to(self.device) for tensor in tensors]


def _blocks(lengths: Sequence[int], size: int) -> list[int]:
    # Sizes of the blocks of each text; all blocks but the last are full.
    return [min(size, length - start) for length in lengths for start in range(0, length, size)]
