"""Algorithm 2: train a retriever and a reader together, from questions and answers alone."""
