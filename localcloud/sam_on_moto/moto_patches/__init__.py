"""Where moto lacks something or does otherwise than AWS."""
