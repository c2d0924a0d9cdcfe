"""Commands that rewrite playbook files: their layout, and older dialects."""
