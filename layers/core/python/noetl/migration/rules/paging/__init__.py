"""Rules about reading one page after the other."""
