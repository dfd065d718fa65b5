"""SageMaker HyperPod, whose clusters are made of real nodes here."""
