"""Modules of the families, written by `make openapi` from their records."""

from collections.abc import Mapping, Sequence

from embedwell_models.families.family import TokenizerOverride

_MODULES = (  # with names in EncoderConfig, and values of model_type: "-" for a file without one
    ("bert", "bert", "bert"),
    ("embedwell_rare.families.ernie", "ernie", "ernie"),
    ("embedwell_rare.families.electra", "electra", "electra"),
    ("embedwell_rare.families.dpr", "dpr", "dpr"),
    ("roberta", "roberta xlm-roberta camembert", "roberta xlm-roberta camembert"),
    ("embedwell_rare.families.xmod", "xmod", "xmod"),
    ("embedwell_rare.families.longformer", "longformer", "longformer"),
    ("embedwell_rare.families.big_bird", "big_bird", "big_bird"),
    ("embedwell_rare.families.luke", "luke", "luke"),
    ("embedwell_rare.families.m2m_100", "m2m_100", "m2m_100"),
    ("embedwell_rare.families.roformer", "roformer", "roformer"),
    ("embedwell_rare.families.esm", "esm", "esm"),
    ("distilbert", "distilbert", "distilbert"),
    ("embedwell_rare.families.albert", "albert", "albert"),
    ("mpnet", "mpnet", "mpnet"),
    ("deberta", "deberta deberta-v2", "deberta deberta-v2"),
    ("t5", "t5 mt5 umt5", "t5 mt5 umt5"),
    ("embedwell_rare.families.xlnet", "xlnet", "xlnet"),
    ("nomic", "nomic_bert", "nomic_bert"),
    ("jina_bert", "jina_bert", "bert"),
    ("jina_v3", "jina_embeddings_v3", "jina_embeddings_v3 xlm-roberta"),
    ("embedwell_vision.families.jina_v4", "jina_v4", "qwen2_5_vl qwen2_5_vl_text -"),
    ("jina_v5", "jina_embeddings_v5", "jina_embeddings_v5"),
    ("jina_reranker", "jina_reranker_v3", "qwen3"),
    ("gte", "new gte", "new gte"),
    ("modernbert", "modernbert", "modernbert"),
    ("eurobert", "eurobert", "eurobert"),
    ("embedwell_rare.families.neobert", "neobert", "neobert"),
    (
        "llama",
        "llama mistral ministral3 mistral3 llama_bidirec",
        "llama mistral ministral3 mistral3 llama_bidirec",
    ),
    (
        "embedwell_vision.families.nemotron_vl",
        "llama_nemotron_vl llama_nemotron_vl_rerank",
        "llama_nemotron_vl llama_nemotron_vl_rerank",
    ),
    ("embedwell_rare.families.minicpm", "minicpm", "minicpm"),
    ("embedwell_rare.families.phi3", "phi3", "phi3"),
    ("embedwell_rare.families.nvembed", "nvembed", "nvembed"),
    ("qwen", "qwen2 qwen3 bidirectional_pplx_qwen3 voyage", "qwen2 qwen3 bidirectional_pplx_qwen3"),
    ("embedwell_vision.families.qwen2_vl", "qwen2_vl gme", "qwen2_vl qwen2_vl_text"),
    ("embedwell_vision.families.qwen2_5_vl", "qwen2_5_vl", "qwen2_5_vl qwen2_5_vl_text"),
    ("embedwell_vision.families.biqwen2_5", "biqwen2_5", "qwen2_5_vl"),
    ("embedwell_vision.families.qwen3_vl", "qwen3_vl", "qwen3_vl qwen3_vl_text"),
    ("embedwell_rare.families.qwen3_5", "qwen3_5", "qwen3_5 qwen3_5_text"),
    ("gemma", "gemma gemma2 gemma3_text gemma3", "gemma gemma2 gemma3_text gemma3"),
    ("embedwell_rare.families.cost_wise_gemma", "cost_wise_gemma", "cost_wise_gemma"),
    ("embedwell_rare.families.t5gemma2", "t5gemma2", "t5gemma2"),
    (
        "embedwell_vision.families.embedding_gemma2",
        "embedding_gemma2",
        "embedding_gemma2 embedding_gemma2_text",
    ),
    ("embedwell_rare.families.gpt2", "gpt2", "gpt2"),
    ("embedwell_rare.families.gpt_neo", "gpt_neo", "gpt_neo"),
    ("embedwell_rare.families.gpt_neox", "gpt_neox", "gpt_neox"),
    ("embedwell_rare.families.gptj", "gptj", "gptj"),
    ("embedwell_rare.families.bloom", "bloom", "bloom"),
    ("embedwell_rare.families.mpt", "mpt", "mpt"),
    ("embedwell_rare.families.lfm2", "lfm2", "lfm2"),
    ("embedwell_vision.families.clip", "clip", "clip clip_text_model metaclip_2"),
    ("embedwell_vision.families.siglip", "siglip siglip2", "siglip siglip2"),
    ("embedwell_vision.families.jina_clip", "jina_clip", "jina_clip"),
    ("embedwell_vision.families.colmodernvbert", "colmodernvbert", "colmodernvbert"),
    ("embedwell_vision.families.colidefics3", "idefics3", "idefics3"),
    ("embedwell_vision.families.colpali", "colpali", "colpali"),
    (
        "embedwell_vision.families.colqwen2",
        "colqwen2 colqwen2_of_authors",
        "colqwen2 qwen2_vl qwen2_5_vl",
    ),
    (
        "embedwell_vision.families.colqwen3",
        "colqwen3 ops_colqwen3 colqwen3_of_colpali_engine qwen3_vl_nemotron_embed",
        "colqwen3 ops_colqwen3 qwen3_vl qwen3_vl_nemotron_embed",
    ),
    ("embedwell_vision.families.colqwen3_5", "colqwen3_5", "qwen3_5"),
    ("static", "static model2vec", ""),
    ("embedwell_decide.families.laya", "laya", "laya"),
    ("embedwell_decide.families.gliclass", "GLiClass", "GLiClass"),
    ("embedwell_decide.families.gliner2", "gliner2", "gliner2"),
    ("embedwell_classic.families.mobilebert", "mobilebert", "mobilebert"),
    ("embedwell_classic.families.canine", "canine", "canine"),
    ("embedwell_classic.families.funnel", "funnel", "funnel"),
    ("embedwell_classic.families.laser", "laser2 laser3", "laser2 laser3"),
    ("embedwell_classic.families.elmo", "elmo", "elmo"),
    ("embedwell_classic.families.doc2vec", "doc2vec", "doc2vec"),
    ("embedwell_classic.families.word_vectors", "word_vectors", ""),
)
_CLASSES: Mapping[TokenizerOverride, str] = {
    "normalizer": (
        "bert ernie electra dpr DPRContextEncoder DPRQuestionEncoder distilbert mpnet "
        "nomic_bert mobilebert funnel "
    ),
    "prefix_space": ("roberta deberta gpt2 gpt_neo gptj "),
    "nothing": (
        "xlm-roberta camembert m2m_100 albert deberta-v2 t5 mt5 umt5 xlnet jina_embeddings_v5 "
        "llama mistral mistral3 minicpm qwen2 qwen3 gemma gemma2 gemma3_text Gemma3 gemma3 "
        "cost_wise_gemma t5gemma2 clip clip_text_model metaclip_2 colpali "
    ),
}


def _modules_of_types() -> Mapping[str, Sequence[str]]:
    modules: dict[str, list[str]] = {}
    for module, _, types in _MODULES:
        for each in types.split():
            modules.setdefault(each.strip("-"), []).append(module)
    return modules


MODEL_TYPES = _modules_of_types()
"""The modules of each value of model_type, of which a variant may apply."""
NAMES = {name: module for module, names, _ in _MODULES for name in names.split()}
"""The module of each name of EncoderConfig."""
TOKENIZER_OVERRIDES = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
"""By the name of a tokenizer class, without its end in Tokenizer."""
