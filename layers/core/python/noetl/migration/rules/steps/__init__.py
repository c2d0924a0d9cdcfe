"""Rules about a step and its tool: where the tool's keys stand, and what a step is called."""
