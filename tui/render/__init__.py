"""What things look like: values in, Content out.

Everything here has passed `clean`, and Content is never parsed as markup: a title is only ever text.
"""
