"""What clusters and training jobs share of SageMaker: its model, its errors and its operations."""
