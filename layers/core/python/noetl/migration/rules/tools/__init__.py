"""Rules about what one kind of tool takes."""
