"""Tool kinds: one file each, or a folder with ``kind.py``, looked up through ``noetl.kinds.registry``."""
