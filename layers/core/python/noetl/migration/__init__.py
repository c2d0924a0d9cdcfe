"""Playbooks of older dialects rewritten to what runs today.

Text in, text and explanations out; no I/O.

``migrate`` applies the rules of ``rules`` one after the other to a ``page.Page`` and proves the result; ``changes`` says what each did.
"""
