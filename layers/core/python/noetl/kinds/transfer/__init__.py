"""The kind ``transfer``: a module for each store that can be an end of one."""
