"""The live page: what becomes of each item, drawn in a browser as it happens. docs/page.md says how it is made."""
