"""results.json to tables, and to one HTML page."""
