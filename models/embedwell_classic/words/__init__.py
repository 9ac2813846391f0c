"""Search among the words of a table, or among texts: neighbours and analogies."""
