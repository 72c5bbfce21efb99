"""Text to vector: a SentenceTransformer, tied or with separate towers."""
