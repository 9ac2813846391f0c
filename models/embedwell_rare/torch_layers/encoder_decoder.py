"""Encoder whose states a decoder reads, with the same table of tokens.

B texts, T tokens, D hidden size.
"""

from collections.abc import Sequence

import torch

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.device import current_device
from embedwell_models.torch_backend.encoder import InputEmbeddings, RowFunction, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.norm import identity
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.tensors import HostCopy
from embedwell_models.vectors import Floats
from embedwell_rare.torch_layers.merged_attention import DecoderLayout, EncoderStates


class EncoderDecoder(TorchEncoder):
    """Encoder of documents, and decoder of queries that reads the encoder's states.

    Ids of the second segment are the decoder's. A text of one segment is read by both. `states`
    are computed by the encoder, `vectors` by the decoder.
    """

    def __init__(
        self,
        embeddings: InputEmbeddings,
        layers: TorchLayers,
        decoder: TorchLayers,
        chunk_size: int,
    ) -> None:
        """layers: of the encoder. chunk_size: see DecoderSpec."""
        super().__init__(embeddings, layers)
        self._decoder, self._chunk_size = decoder, chunk_size

    @torch.inference_mode()
    def vectors(
        self, batch: Batch, poolings: Sequence[str], head: RowFunction = identity
    ) -> Floats:
        """Pool the decoder's last states, concatenating the poolings: (B, poolings * D).

        head: applied to them on the device, in float32.
        """
        documents, queries = _by_segment(batch, self._embeddings.config.vocab_size)
        with current_device(self.device):
            of_documents = self._layout(documents, BatchShape.of)
            with self._lock:
                states = self._run(of_documents.ids, of_documents)
                means = EncoderStates.of_means(states, of_documents, self._chunk_size)
                layout = DecoderLayout(queries, means, self.device)
                inputs = self._embeddings(layout.ids, layout, states.dtype)
                hidden = self._decoder(inputs, layout, len(self._decoder))
                copy = HostCopy(head(pool(hidden, layout, poolings)))
        return copy.wait()


def _by_segment(batch: Batch, vocab_size: int) -> tuple[Batch, Batch]:
    rows = batch.split(batch.ids)
    first = [row[row < vocab_size] for row in rows]
    second = [row[row >= vocab_size] - vocab_size for row in rows]
    documents = [one if len(one) else other for one, other in zip(first, second, strict=True)]
    queries = [other if len(other) else one for one, other in zip(first, second, strict=True)]
    return Batch.of(documents), Batch.of(queries)
