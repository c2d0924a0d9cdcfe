"""Tool kinds: one file each, or a folder with ``kind.py``; see ``noetl.kinds.registry``."""
