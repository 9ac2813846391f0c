"""The tokenizer of word vectors: words at white space, found in a vocabulary that files map."""
