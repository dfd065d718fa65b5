"""What the agent tells the control plane, kept until the bus has it."""
