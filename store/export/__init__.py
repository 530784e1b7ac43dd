"""This package writes conversations as documents that can leave the store: Markdown, HTML, JSON, ATIF, or records.

`reader.py` reads a session into the plain types of `document.py`; one module for each format writes them. A document
ends with a receipt, which says what it was made from and what was left out.
"""
