"""Decision models: probabilities of the answers to typed questions about a text."""
