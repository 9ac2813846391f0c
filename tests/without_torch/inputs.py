"""What the tests ask the models, and what a program with torch computes for them beforehand."""

FOLDER = "EMBEDWELL_TEST_MODELS"
"""Variable of the environment: the folder that write_models.py has filled."""

TEXTS = ["the license of this work", "x", "any copyright, such as it is", "you " * 30, ""]
QUERY = "the license of a work"
DOCUMENTS = ["a copyright", "you", "the license of this work", "any by " * 20]
LABELS = ["contradiction", "entailment", "neutral"]
IMAGES = ("first.png", "second.jpg")
FAMILIES = (
    *("deberta-v2", "distilbert", "gemma2", "gpt_neox", "gptj", "gte", "lfm2", "llama"),
    *("modernbert", "mpnet", "qwen3", "t5", "umt5", "xlm-roberta", "xlnet"),
)
"""Families of small embedders with mean pooling."""
