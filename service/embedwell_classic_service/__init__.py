"""The service of embedwell_classic: search among words; `convert`, `compress` and `train`."""
