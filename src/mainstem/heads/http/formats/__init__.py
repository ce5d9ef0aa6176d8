"""Events in the formats of HTTP bodies: JSON, NDJSON, text, bytes, parts, CloudEvents."""
