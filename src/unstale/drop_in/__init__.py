"""Fresh negatives in a script that trains with the stock `SentenceTransformerTrainer`."""
