"""Rerankers whose encoder reads a document, and whose decoder reads the query: KaLM-Reranker.

Zhao et al. 2026, arXiv 2606.22807.
"""

from pathlib import Path

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families.t5gemma2 import OPTIONS_FILE
from embedwell_models.model_files.classification_heads import ClassificationHead
from embedwell_models.model_files.generative import answer_ids
from embedwell_models.model_files.vector_modules import LogitScore
from embedwell_models.tokenizer.pair_format import DecoderFormat, PromptSlot

_SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".'
)
_INSTRUCTION = "Given a query, retrieve documents that answer the query."
_MAX_QUERY, _MAX_DOCUMENT = 512, 1024
_TABLES = (
    "lm_head.out_proj.weight",
    *(f"model.encoder.{part}embed_tokens.weight" for part in ("text_model.", "")),
)


def read_decoder_format(encoder: Path) -> DecoderFormat:
    """Read the format of pairs; a folder without the file has the defaults of the authors' code.

    Raises ModelError for an option that is not known.
    """
    options = JsonConfig.optional(encoder / OPTIONS_FILE)
    lengths = {"query_max_length": _MAX_QUERY, "document_max_length": _MAX_DOCUMENT}
    options.refuse_unknown({*lengths, "encoder_chunk_size", "system_instruction"})
    system = options.get("system_instruction", _SYSTEM)
    query, document = (options.get(key, default) for key, default in lengths.items())
    return DecoderFormat(
        document="<Document>: ",
        prompt=(
            f"<bos><start_of_turn>user\n{system}\n\n<Instruct>: ",
            PromptSlot.INSTRUCTION,
            "\n<Query>: ",
            PromptSlot.QUERY,
            "<end_of_turn>\n<start_of_turn>model\n\n\n\n",
        ),
        instruction=_INSTRUCTION,
        max_query=query,
        max_document=document,
    )


def decoder_head(folder: Path, path: str, config: EncoderConfig) -> ClassificationHead:
    """Return the head of a decoder: the difference of the logits of yes and no.

    path: the encoder's folder, relative to the model's. Raises ModelError for missing tokens.
    """
    options = JsonConfig(folder / path / "config.json")
    options.nested("decoder").require("final_logit_softcapping", None)
    true_id, false_id = answer_ids(folder / path, ("yes", "no"), config.vocab_size)
    module = LogitScore(
        path=path,
        inputs=config.hidden_size,
        vocabulary=config.vocab_size,
        tensors=_TABLES,
        true_id=true_id,
        false_id=false_id,
    )
    return ClassificationHead("lasttoken", (module,))
