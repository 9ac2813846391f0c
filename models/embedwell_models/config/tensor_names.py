"""Our names of an encoder's tensors, which the families map the names of checkpoints to.

Each has a weight, and a bias where the checkpoint has one. A tensor that a checkpoint lacks is left
out of the computation: without `norm`, the sum of the embeddings is not normalised. The layer
`LayerSpec.has` says which of them a layer needs.
"""

from collections.abc import Iterable

OF_ENCODER = {
    "token_table": "vectors of the tokens (V, D)",
    "position_table": "learned vectors of the positions",
    "segment_table": "vectors of the segments of a pair",
    "norm": "norm of the sum of these",
    "project": "projection of narrower tables to the states",
    "bias_table": "biases by distance, of all layers (T5, MPNet)",
    "relative_table": "vectors of distances (DeBERTa)",
    "relative_norm": "their norm",
    "gates": "features of tokens that gate each layer (EmbeddingGemma 2)",
    "gates_norm": "their norm",
    "final_norm": "norm after the last layer",
}
OF_LAYER = {
    "attention_norm": "norm of attention or convolution: of the input, or after it (post-norm)",
    "query": "projection of the queries",
    "key": "projection of the keys",
    "value": "projection of the values",
    "first_query": "projection of the query of the first token (classifiers of Longformer)",
    "first_key": "projection of the keys that the first token reads",
    "first_value": "projection of the values that the first token reads",
    "query_norm": "norm of the queries",
    "key_norm": "norm of the keys",
    "mixed_norm": "norm of the results of all heads (EVA-02 of Jina)",
    "attention_gate": "projection whose sigmoid gates the results of attention (Qwen3.5)",
    "output": "projection after attention",
    "attention_output_norm": "second norm, of the output of attention",
    "layer_bias_table": "biases by distance, of one layer (umT5)",
    "position_query": "projection of distances for queries (DeBERTa)",
    "position_key": "projection of distances for keys (DeBERTa)",
    "relative": "projection of sinusoids of distances (Transformer-XL)",
    "position_bias": "query of all distances (Transformer-XL)",
    "convolution_input": "projection before a convolution",
    "convolution": "short convolution over tokens",
    "convolution_output": "projection after a convolution",
    "delta_input": "projection of queries, keys and values of a Gated DeltaNet",
    "delta_convolution": "convolution of each of these features over tokens",
    "delta_gate": "projection of the gate of its results",
    "delta_strength": "projection of the share of a value that replaces an older one",
    "delta_decay": "projection of the decay of its memory",
    "delta_rate": "logarithm of the rate of this decay, of each head",
    "delta_scale": "weight of the norm of the results of a head",
    "delta_output": "projection after a Gated DeltaNet",
    "ffn_norm": "norm of the feed-forward network: of the input, or after it (post-norm)",
    "gate": "first projection of the network, for the activation, if it is gated",
    "up": "first projection of the network",
    "inner_norm": "norm of the features between them (EVA-02)",
    "down": "second projection of the network",
    "adapter_up": "first projection of the adapter after the network (X-MOD)",
    "adapter_down": "second projection of the adapter",
    "ffn_output_norm": "second norm, of the output of the network",
    "router": "scores of the experts",
    "experts": "bias of the experts",
    "experts_up": "first projections of the experts",
    "experts_down": "second projections of the experts",
    "gate_down": "projection of the states for the gate of a layer (EmbeddingGemma 2)",
    "gate_up": "projection after that gate",
    "gate_norm": "norm of its result",
    "scale": "factor of its result",
}


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that no layer and no input reads, such as misspelled ones.

    names: of weights and biases, with {} for the number of the layer.
    """
    return sorted({name for name in names if not _is_known(name)})


def _is_known(name: str) -> bool:
    known = OF_LAYER if name.startswith("layers.{}.") else OF_ENCODER
    kind = name.removeprefix("layers.{}.").removesuffix(".weight").removesuffix(".bias")
    return kind in known


def split(ours: str) -> list[str]:
    """Split 'layers.{}.query|key.weight' into the names of its parts."""
    head, _, tail = ours.rpartition(".")
    if "|" not in head:
        return [ours]
    layer, _, parts = head.rpartition(".")
    return [f"{layer}.{part}.{tail}" for part in parts.split("|")]


def affine(theirs: str, ours: str) -> dict[str, str]:
    """Map the weight and bias of a linear layer or norm to our names."""
    return {f"{theirs}.{part}": f"{ours}.{part}" for part in ("weight", "bias")}


def affine_shapes(ours: str, weight: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a weight and of its bias, which has an entry for each row."""
    return {f"{ours}.weight": weight, f"{ours}.bias": weight[:1]}


def linear(theirs: str, ours: str, bias: bool = False) -> dict[str, str]:
    """Map the weight of a linear layer, and its bias if it has one, to our names."""
    return affine(theirs, ours) if bias else {f"{theirs}.weight": f"{ours}.weight"}
