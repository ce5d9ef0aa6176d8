"""What a pipeline file defines: tables and their sources; checks that need no Spark."""
