"""Where code of playbooks runs: confined processes with a scrubbed environment and limits.

``noetl_guest`` is the part that runs inside such a process and imports nothing but the standard library;
``process`` starts one, ``child`` speaks with a warm Python child, ``pool`` keeps children between calls.
"""
