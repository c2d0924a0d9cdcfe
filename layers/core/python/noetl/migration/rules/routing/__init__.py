"""Rules about the ways out of a step."""
