"""How commands print: tables, results of queries, progress, escapes for terminals."""
