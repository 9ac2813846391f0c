"""Names of files of options that some models have besides config.json."""

KALM_RERANKER = "kalm_cross_encoder_config.json"
"""Options of a KaLM-Reranker."""
IMAGE_FILES = ("processor_config.json", "preprocessor_config.json")
"""Options of the preprocessing of images: those of the first file that exists and has any."""
WORD_VECTORS = "wordembedding_config.json"
"""Options of a folder of word vectors, which has no config.json."""
