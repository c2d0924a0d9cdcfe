"""Rules about templates: what results and their parts are called."""
