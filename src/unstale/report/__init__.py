"""results.json to tables."""
