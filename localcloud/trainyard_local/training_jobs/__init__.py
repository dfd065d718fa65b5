"""SageMaker's training jobs, whose hosts are real process trees with a network of their own."""
