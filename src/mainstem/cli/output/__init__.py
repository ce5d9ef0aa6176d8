"""How commands print: tables, query results, progress, escapes for terminals."""
