"""What the stacks are made of."""
