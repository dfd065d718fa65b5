"""Llama-family language models: pretraining and fine-tuning on the shared loop."""
