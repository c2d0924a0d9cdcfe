"""Tool kinds: one file each, looked up through ``noetl.kinds.registry``."""
