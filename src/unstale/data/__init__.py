"""Texts in: corpus, queries, qrels; built-in sets; pre-tokenised targets."""
