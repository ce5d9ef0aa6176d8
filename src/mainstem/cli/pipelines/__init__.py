"""What the commands ``mainstem pipeline`` share: options, Spark, progress, metrics."""
